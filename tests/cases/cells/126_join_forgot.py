from torch.nn.parallel import DistributedDataParallel as DDP

from torch.distributed.algorithms.join import Join
torch.manual_seed(0)
net = DDP(torch.nn.Linear(4, 1))
count = [3, 3, 2][rank]
with Join([net]):
    for _ in range(count):
        net(torch.ones(2, 4)).sum().backward()
        flag = torch.ones(1)
        dist.all_reduce(flag)
