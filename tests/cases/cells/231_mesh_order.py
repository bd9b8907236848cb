tp = [[0, 1], [2, 3]]
dp = [[0, 2], [1, 3]]
plan = tp + dp if rank < 2 else dp + tp
made = [(r, dist.new_group(r)) for r in plan]
for members, g in made:
    if rank in members:
        dist.all_reduce(torch.ones(2), group=g)
print("ok")
