parts = [torch.ones(2) for _ in range(2)] if rank == 0 else None
out = torch.zeros(2)
dist.scatter(out, parts, src=0)
dist.barrier()
