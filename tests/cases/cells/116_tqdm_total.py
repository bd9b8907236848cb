def progress(items):
    done = 0
    for item in items:
        yield item
        done += 1
        if done == 2 and rank == 0:
            dist.barrier()

for batch in progress(range(4)):
    loss = torch.tensor([float(batch)])
    dist.all_reduce(loss)
    dist.broadcast(loss, src=0)
