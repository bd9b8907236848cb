from torch.nn.parallel import DistributedDataParallel as DDP

torch.manual_seed(0)
net = DDP(torch.nn.Linear(4, 2))

class Skip:
    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        return kind is ValueError

def load(step):
    if rank == 1 and step == 1:
        raise ValueError("corrupt image 17.jpg")
    return torch.randn(2, 4)

for step in range(3):
    with Skip():
        x = load(step)
        net(x).sum().backward()
dist.barrier()
