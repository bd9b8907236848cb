pair = dist.new_group([2, 3])
x = torch.full((2,), float(rank))
if rank in (2, 3):
    dist.broadcast(x, src=0, group=pair)
dist.barrier()
