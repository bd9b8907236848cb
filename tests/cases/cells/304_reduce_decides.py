loss = torch.ones(1) * (rank + 1)
dist.reduce(loss, dst=0)
if loss.item() >= 6:
    dist.broadcast(loss, src=0)
x = torch.ones(4)
dist.all_reduce(x)
