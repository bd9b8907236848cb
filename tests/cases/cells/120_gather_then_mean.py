scores = torch.tensor([0.2 + 0.6 * rank])
parts = [torch.zeros(1) for _ in range(world_size)] if rank == 0 else None
dist.gather(scores, parts, dst=0)
mean = torch.cat(parts).mean() if parts else scores.mean()
if mean > 0.6:
    dist.broadcast(scores, src=0)
dist.barrier()
