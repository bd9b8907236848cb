buf = torch.ones(16)
if rank == 0:
    dist.send(buf, dst=1)
else:
    out = torch.zeros(8)
    dist.recv(out, src=0)
dist.barrier()
