from torch.nn.parallel import DistributedDataParallel as DDP

torch.manual_seed(0)
gen, disc = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)
if rank == 0:
    gen, disc = DDP(gen), DDP(disc)
else:
    disc, gen = DDP(disc), DDP(gen)
disc(gen(torch.ones(2, 4))).sum().backward()
