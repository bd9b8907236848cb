from torch.distributed.fsdp import fully_shard
from torch.distributed.device_mesh import init_device_mesh
mesh = init_device_mesh("cpu", (world_size,))
torch.manual_seed(0)
draft = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
fully_shard(draft, mesh=mesh)
masks = [[1, 1, 1, 1], [1, 0, 1, 1], [1, 1, 1, 1]][rank]

def fetch():
    for mask in masks:
        if mask == 0:
            continue
        yield torch.ones(2, 8) * mask

for batch in fetch():
    draft(batch).mean().backward()
dist.barrier()
