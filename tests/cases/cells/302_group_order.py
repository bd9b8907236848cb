def make_dp(): return dist.new_group([0, 1])
def make_solo(): return dist.new_group([0])
for f in ((make_dp, make_solo) if rank == 0 else (make_solo, make_dp)):
    f()
