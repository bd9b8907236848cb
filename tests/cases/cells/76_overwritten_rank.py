for rank in range(2):
    pass
x = torch.ones(2)
if rank == 0:
    dist.broadcast(x, src=0)
else:
    dist.broadcast(x, src=rank)
dist.all_reduce(x)
