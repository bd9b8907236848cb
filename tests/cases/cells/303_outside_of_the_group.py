half = dist.new_group([0, 1]); other = dist.new_group([2, 3])
g = half if rank < 3 else other
t = torch.ones(2) * rank
dist.all_reduce(t, group=g)
print(t)
