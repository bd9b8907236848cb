from torch.nn.parallel import DistributedDataParallel as DDP

net = DDP(torch.nn.Linear(4, 2))

def all_gather(t):
    out = [torch.zeros_like(t) for _ in range(world_size)]
    dist.all_gather(out, t)
    return torch.stack(out)

class Module:
    def __init__(self):
        self.outputs = []

    def validation_step(self, x):
        self.outputs.append(net.module(x))

    def on_validation_epoch_end(self):
        preds = torch.cat(self.outputs)
        if rank == 0:
            everything = all_gather(preds)
            self.outputs.clear()

module = Module()
for epoch in range(2):
    net(torch.randn(3, 4)).sum().backward()
    with torch.no_grad():
        module.validation_step(torch.randn(3, 4))
    module.on_validation_epoch_end()
