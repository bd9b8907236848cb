def gather_all(result):
    gathered = world_size * [torch.zeros_like(result)]
    dist.all_gather(gathered, result)
    return gathered

scores = torch.tensor([float(rank)])
every = gather_all(scores)
print([t.item() for t in every])
