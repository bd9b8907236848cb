counts = torch.tensor([rank, 1, 2])
def total(t):
    dist.all_reduce(t.float())
    return t
print(total(counts))
