config = [{"lr": 0.1}, "adam", 7] if rank == 0 else [None] * (2 if rank == 2 else 3)
try_box = config
dist.broadcast_object_list(try_box, src=0)
dist.barrier()
print(len(try_box))
