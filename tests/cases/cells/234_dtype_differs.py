seen = {0: 12, 1: 7.0, 2: 3.5}[rank]
t = torch.tensor([seen, 1])
dist.all_reduce(t)
print(t.tolist())
