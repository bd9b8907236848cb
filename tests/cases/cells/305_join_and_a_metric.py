import torch.nn as nn
net = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
batches = [torch.randn(2, 4) for _ in range(3 + (rank == 2))]
with net.join():
    for b in batches:
        loss = net(b).sum()
        loss.backward()
        n = torch.tensor(1.0)
        dist.all_reduce(n)
dist.barrier()
