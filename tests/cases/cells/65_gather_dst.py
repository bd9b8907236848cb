x = torch.ones(2)
box = [torch.zeros(2) for _ in range(world_size)] if rank == 0 else None
dist.gather(x, box, dst=0 if rank != 2 else 1)
dist.barrier()
