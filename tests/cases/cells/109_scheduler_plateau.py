from torch.nn.parallel import DistributedDataParallel as DDP

net = DDP(torch.nn.Linear(4, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=0, factor=0.01)
losses = [[1.0, 0.9, 0.8, 0.7], [1.0, 1.1, 1.2, 1.3], [1.0, 0.9, 0.8, 0.7]][rank]
for epoch in range(4):
    for _ in range(2):
        net(torch.ones(2, 4)).sum().backward()
        opt.step()
    plateau.step(losses[epoch])
    if opt.param_groups[0]["lr"] < 1e-4:
        print("learning rate is too small, stop")
        break
final = torch.ones(1)
dist.all_reduce(final)
