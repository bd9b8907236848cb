params = [torch.nn.Parameter(torch.ones(3)) for _ in range(3)]
def sync(params):
    for p in params:
        if p.grad is not None:
            dist.all_reduce(p.grad)
loss = sum(p.sum() for p in params[: 3 if rank != 2 else 2])
loss.backward()
sync(params)
total = torch.stack([p.grad.norm() for p in params if p.grad is not None]).sum()
dist.barrier()
