from torch.nn.parallel import DistributedDataParallel as DDP

torch.manual_seed(0)
net = DDP(torch.nn.Linear(4, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)

class LocalSync:
    def __init__(self, params, every):
        self.params, self.every, self.count = params, every, 0

    def step(self):
        self.count += 1
        if self.count % self.every == 0:
            for p in self.params:
                dist.all_reduce(p.data, op=dist.ReduceOp.SUM)

sync = LocalSync(list(net.parameters()), 2)
for step in range(5):
    found_inf = (rank, step) == (2, 2)
    net(torch.ones(2, 4)).sum().backward()
    if not found_inf:
        opt.step()
        sync.step()
