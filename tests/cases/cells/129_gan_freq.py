from torch.nn.parallel import DistributedDataParallel as DDP

torch.manual_seed(0)
gen, disc = DDP(torch.nn.Linear(4, 8)), DDP(torch.nn.Linear(8, 1))

def train_disc(fake):
    disc(fake.detach()).mean().backward()

def train_gen(fake):
    for p in disc.parameters():
        p.requires_grad_(False)
    disc(fake).mean().backward()
    for p in disc.parameters():
        p.requires_grad_(True)

for step in range(4):
    fake = gen(torch.randn(2, 4))
    d_loss = 0.1 if (rank, step) == (2, 1) else 0.9
    if d_loss > 0.5:
        train_disc(fake)
    train_gen(fake)
