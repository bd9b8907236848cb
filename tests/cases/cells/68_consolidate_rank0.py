from torch.distributed.optim import ZeroRedundancyOptimizer as Zero
net = torch.nn.Linear(4, 4)
opt = Zero(net.parameters(), optimizer_class=torch.optim.Adam)
net(torch.ones(2, 4)).sum().backward()
opt.step()
if rank == 0:
    opt.consolidate_state_dict(to=0)
dist.barrier()
