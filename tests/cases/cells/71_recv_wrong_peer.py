right, left = (rank + 1) % world_size, (rank - 1) % world_size
x = torch.ones(4)
buf = torch.zeros(4)
if rank == 0:
    left = 2
req = dist.isend(x, right)
dist.recv(buf, left)
req.wait()
