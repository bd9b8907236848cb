flat = torch.ones(10 if rank == 0 else 8)
shard = torch.empty(flat.numel() // world_size)
dist.reduce_scatter_tensor(shard, flat)
print(shard.shape)
