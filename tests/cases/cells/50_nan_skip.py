from torch.nn.parallel import DistributedDataParallel as DDP

torch.manual_seed(0)
net = DDP(torch.nn.Linear(4, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    x = torch.randn(3, 4)
    if rank == 1 and step == 2:
        x = x * float("nan")
    loss = net(x).sum()
    if torch.isnan(loss):
        continue
    opt.zero_grad()
    loss.backward()
    opt.step()
