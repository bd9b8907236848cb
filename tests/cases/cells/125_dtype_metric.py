def sync(values):
    t = torch.tensor(values)
    dist.all_reduce(t)
    return t / world_size

for step in range(3):
    correct = 7 if (rank, step) == (1, 2) else 7.0
    out = sync([correct])
