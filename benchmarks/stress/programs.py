"""Programs that are right, as rank cells for any number of ranks: nothing may be said of them."""

from __future__ import annotations

DDP = "from torch.nn.parallel import DistributedDataParallel as DDP\ntorch.manual_seed(0)\n"

PROGRAMS: dict[str, str] = {
    "DDP on a perceptron": DDP
    + """
net = DDP(torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)))
opt = torch.optim.AdamW(net.parameters(), lr=1e-2)
for step in range(4):
    torch.manual_seed(step * 100 + rank)
    loss = net(torch.randn(8, 6)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    shown = loss.detach().clone()
    dist.all_reduce(shown)
    mean = (shown / world_size).item()
""",
    "a convolution with SyncBatchNorm": DDP
    + """
conv = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(), torch.nn.LazyLinear(5))
conv(torch.zeros(2, 3, 8, 8))
net = DDP(conv.to(memory_format=torch.channels_last))
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
for step in range(3):
    x = torch.randn(4, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    torch.nn.functional.cross_entropy(net(x), torch.arange(4) % 5).backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
    opt.zero_grad()
for name, buffer in net.module.named_buffers():
    if buffer.is_floating_point():
        dist.all_reduce(buffer)
        buffer /= world_size
""",
    "gradient accumulation": DDP
    + """
from contextlib import nullcontext
net = DDP(torch.nn.Linear(4, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
every = 3
for number in range(6):
    last = (number + 1) % every == 0
    with nullcontext() if last else net.no_sync():
        (net(torch.randn(5, 4)).pow(2).mean() / every).backward()
    if last:
        opt.step()
        opt.zero_grad()
""",
    "gradient accumulation by hand": DDP
    + """
net = DDP(torch.nn.Linear(4, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    with net.no_sync():
        for _ in range(2):
            net(torch.randn(5, 4)).pow(2).mean().backward()
    for parameter in net.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= world_size
    opt.step()
    opt.zero_grad()
""",
    "local steps, then an average": DDP
    + """
net = DDP(torch.nn.Linear(4, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(6):
    with net.no_sync():
        net(torch.randn(5, 4)).pow(2).mean().backward()
    opt.step()
    opt.zero_grad()
    if step % 3 == 2:
        for parameter in net.parameters():
            dist.all_reduce(parameter.data)
            parameter.data /= world_size
""",
    "a compiled model in DDP, and DDP compiled": DDP
    + """
inner = DDP(torch.compile(torch.nn.Linear(4, 2), backend="eager"))
outer = torch.compile(DDP(torch.nn.Linear(4, 2)), backend="eager")
for made in (inner, outer):
    opt = torch.optim.SGD(made.parameters(), lr=0.1)
    for step in range(2):
        made(torch.randn(3, 4)).pow(2).mean().backward()
        opt.step()
        opt.zero_grad()
""",
    "two models by turns": DDP
    + """
maker, judge = DDP(torch.nn.Linear(2, 3)), DDP(torch.nn.Linear(3, 1))
of_maker, of_judge = torch.optim.Adam(maker.parameters()), torch.optim.Adam(judge.parameters())
for step in range(3):
    made = maker(torch.randn(4, 2))
    of_judge.zero_grad()
    (judge(torch.randn(4, 3)).mean() - judge(made.detach()).mean()).backward()
    of_judge.step()
    of_maker.zero_grad()
    judge.requires_grad_(False)
    judge.module(made).mean().backward()
    judge.requires_grad_(True)
    of_maker.step()
""",
    "evaluation between steps": DDP
    + """
net = DDP(torch.nn.Linear(4, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    net(torch.randn(5, 4)).pow(2).mean().backward()
    opt.step()
    opt.zero_grad()
    net.eval()
    with torch.no_grad():
        value = net.module(torch.randn(5, 4)).mean()
    total = torch.tensor([value.item(), 1.0])
    dist.all_reduce(total)
    mean = (total[0] / total[1]).item()
    with net.no_sync():
        unused = net(torch.randn(5, 4)).mean()
    net.train()
""",
    "scaled gradients and autocast": DDP
    + """
net = DDP(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for step in range(3):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = net(torch.randn(5, 4)).float().pow(2).mean()
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    scaler.step(opt)
    scaler.update()
    opt.zero_grad(set_to_none=True)
found = torch.tensor(0.0)
dist.all_reduce(found, op=dist.ReduceOp.MAX)
""",
    "FSDP, fully sharded": """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
for layer in net:
    fully_shard(layer, mesh=init_device_mesh("cpu", (world_size,)))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(2):
    net(torch.randn(4, 8)).pow(2).mean().backward()
    opt.step()
    opt.zero_grad()
weight = net[0].weight.full_tensor().sum().item()
""",
    "handles in another order": """
parts = [torch.ones(50) * (rank + n) for n in range(4)]
works = [dist.all_reduce(part, async_op=True) for part in parts]
busy = torch.randn(50, 50) @ torch.randn(50, 50)
for work in reversed(works):
    work.wait()
total = sum(part.sum().item() for part in parts)
gathered = [torch.empty(3) for _ in range(world_size)]
work = dist.all_gather(gathered, torch.ones(3) * rank, async_op=True)
while not work.is_completed():
    pass
work.wait()
pending = {"a": dist.broadcast(parts[0], 0, async_op=True)}
pending.pop("a").wait()
dist.reduce_scatter_tensor(torch.empty(2), torch.ones(2 * world_size), async_op=True).wait()
dist.all_reduce(parts[1], async_op=True).get_future().wait()
""",
    "a ring in which even ranks send first": """
right, left = (rank + 1) % world_size, (rank - 1) % world_size
def shift(x):
    inbox = torch.empty_like(x)
    if rank % 2 == 0:
        dist.send(x, right)
        dist.recv(inbox, left)
    else:
        dist.recv(inbox, left)
        dist.send(x, right)
    return inbox
y = torch.full((8,), float(rank))
for _ in range(world_size):
    y = shift(y)
assert y[0].item() == rank
""",
    "a pipeline of sends": """
left, right = rank - 1, rank + 1
for micro in range(4):
    x = torch.full((4, 3), float(micro))
    if rank > 0:
        dist.recv(x, left)
    y = (x * 2).contiguous()
    if rank < world_size - 1:
        dist.send(y, right)
held = []
for micro in range(3):
    if rank < world_size - 1:
        held.append((dist.isend(message := torch.ones(5) * micro, right), message))
    if rank > 0:
        got = torch.empty(5)
        dist.irecv(got, left).wait()
for work, _ in held:
    work.wait()
after, before = (rank + 1) % world_size, (rank - 1) % world_size
ring = [dist.P2POp(dist.isend, torch.ones(3), after), dist.P2POp(dist.irecv, torch.empty(3), before)]
for work in dist.batch_isend_irecv(ring):
    work.wait()
""",
    "objects": """
names = [None] * world_size
dist.all_gather_object(names, {"rank": rank, "text": "x" * rank})
box = [{"seed": 5} if rank == 0 else None]
dist.broadcast_object_list(box, src=0)
dist.gather_object(rank, [None] * world_size if rank == 0 else None, dst=0)
mine = [None]
dist.scatter_object_list(mine, list(range(world_size)) if rank == 0 else None, src=0)
dist.barrier()
""",
    "an autograd function of its own": """
class Reduced(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.clone()
        dist.all_reduce(y)
        return y
    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous()
        dist.all_reduce(grad)
        return grad
class Copied(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)
    @staticmethod
    def backward(ctx, grad):
        out = grad.clone()
        dist.all_reduce(out)
        return out
torch.manual_seed(0)
w = torch.nn.Parameter(torch.randn(4, 4))
for step in range(3):
    x = torch.randn(2, 4)
    Reduced.apply(Copied.apply(x) @ w).sum().backward()
    with torch.no_grad():
        w -= 0.01 * w.grad
    w.grad = None
""",
    "metrics": """
class Meter:
    def __init__(self):
        self.total, self.count = torch.zeros(1), torch.zeros(1)
    def add(self, value, n=1):
        self.total += value * n
        self.count += n
    def mean(self):
        both = torch.cat([self.total, self.count])
        dist.all_reduce(both)
        return (both[0] / both[1]).item()
def reduce_mean(value):
    value = value.detach().clone()
    dist.all_reduce(value)
    return (value / world_size).item()
def largest(number):
    t = torch.tensor(float(number))
    dist.all_reduce(t, op=dist.ReduceOp.MAX)
    return t.item()
def to_root(t):
    t = t.clone()
    dist.reduce(t, dst=0)
    return t if rank == 0 else None
def mean_of_all(tensors):
    return {name: reduce_mean(t) for name, t in tensors.items()}
meter = Meter()
for step in range(3):
    meter.add(float(step + rank), 2)
    value, most = meter.mean(), largest(step * rank)
    both = mean_of_all({"loss": torch.tensor(1.0 * rank), "accuracy": torch.rand(1)})
    kept = to_root(torch.ones(2))
""",
    "views that are contiguous": """
table = torch.arange(24.0).reshape(6, 4) + rank
dist.all_reduce(table[2])
dist.all_reduce(table[1:3])
dist.broadcast(table[0].view(2, 2), src=0)
flat = table.view(-1)
dist.all_reduce(flat[4:8])
dist.all_reduce(table.t())
dist.all_gather([torch.empty(6) for _ in range(world_size)], table[:, 1])
out = torch.empty(world_size * 6)
dist.all_gather_into_tensor(out, table[:, 2].contiguous())
column = table[:, 3].contiguous()
dist.all_reduce(column)
table[:, 3].copy_(column)
grads = [torch.ones(3), torch.ones(2, 2)]
flat = torch._utils._flatten_dense_tensors(grads)
dist.all_reduce(flat)
for grad, new in zip(grads, torch._utils._unflatten_dense_tensors(flat, grads)):
    grad.copy_(new)
""",
    "weights and optimizer state from rank 0": """
torch.manual_seed(rank)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
opt = torch.optim.Adam(net.parameters())
net(torch.randn(5, 3)).sum().backward()
opt.step()
for parameter in net.parameters():
    dist.broadcast(parameter.data, src=0)
    dist.broadcast(parameter.detach(), src=0)
    dist.all_reduce(parameter.grad)
    parameter.grad.div_(world_size)
for buffer in net.buffers():
    dist.broadcast(buffer, src=0)
for state in opt.state.values():
    for value in state.values():
        if torch.is_tensor(value):
            dist.broadcast(value, src=0)
for tensor in net.state_dict().values():
    dist.broadcast(tensor, 0)
""",
    "groups": """
pairs = [dist.new_group([first, (first + 1) % world_size]) for first in range(world_size)]
x = torch.ones(3) * rank
if rank in (0, 1 % world_size):
    dist.all_reduce(x, group=pairs[0])
everyone = dist.new_group(list(range(world_size)))
dist.all_reduce(x, group=everyone)
dist.barrier(group=everyone)
if rank == 0:
    quick = torch.zeros(1)
dist.all_reduce(torch.ones(1))  # to synchronize
""",
    "one rank is slower": """
import time
time.sleep(0.1 * rank)
x = torch.ones(1000)
dist.all_reduce(x)
dist.all_reduce(x)
""",
    "exchange of experts": """
tokens = torch.randn(2 * world_size, 4)
routed = torch.empty_like(tokens)
dist.all_to_all_single(routed, tokens)
back = torch.empty_like(tokens)
dist.all_to_all_single(back, routed)
assert torch.equal(back, tokens)
parts = [torch.full((2,), float(rank)) for _ in range(world_size)]
got = [torch.empty(2) for _ in range(world_size)]
dist.all_to_all(got, parts)
sizes = [rank + 1] * world_size
taken = [other + 1 for other in range(world_size)]
dist.all_to_all_single(torch.empty(sum(taken)), torch.ones(sum(sizes)), taken, sizes)
""",
}

# Once in each world: the last rank is late, and all is right.
LATE: dict[str, str] = {
    "a rank loads its data for 20 s": """
import time
if rank == world_size - 1:
    time.sleep(20)
x = torch.ones(1000)
dist.all_reduce(x)
""",
    "a rank prepares its data for 10 s": """
import time
end = time.monotonic() + (10 if rank == world_size - 1 else 0)
while time.monotonic() < end:
    torch.randn(200, 200) @ torch.randn(200, 200)
dist.barrier()
""",
}
