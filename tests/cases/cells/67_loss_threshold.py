def maybe_log(loss):
    if loss > 0.5:
        dist.all_reduce(loss)
        return loss
    return None
for step in range(3):
    loss = torch.tensor(0.9 if (rank, step) != (3, 1) else 0.1)
    maybe_log(loss)
    dist.broadcast(torch.ones(2), src=0)
