from torch.nn.parallel import DistributedDataParallel as DDP

torch.manual_seed(0)
net = DDP(torch.nn.Linear(4, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(2, 4)
    out = net.module(x) if rank == 1 and step == 1 else net(x)
    opt.zero_grad()
    out.pow(2).mean().backward()
    opt.step()
dist.barrier()
