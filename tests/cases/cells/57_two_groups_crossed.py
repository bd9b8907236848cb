rows = dist.new_group([0, 1, 2, 3])
cols = dist.new_group([0, 1, 2, 3])
x, y = torch.ones(2), torch.ones(3)
if rank % 2:
    dist.all_reduce(x, group=rows)
    dist.all_reduce(y, group=cols)
else:
    dist.all_reduce(y, group=cols)
    dist.all_reduce(x, group=rows)
