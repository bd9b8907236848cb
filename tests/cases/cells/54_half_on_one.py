def reduce_loss(loss):
    dist.all_reduce(loss)
    return loss / world_size
loss = torch.ones(4)
if rank == 2:
    loss = loss.half()
out = reduce_loss(loss)
