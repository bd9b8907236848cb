def reduce_tree(tree):
    if isinstance(tree, dict):
        return {key: reduce_tree(tree[key]) for key in sorted(tree)}
    t = torch.tensor(float(tree))
    dist.all_reduce(t)
    return t.item() / world_size

logs = {"loss": 1.0, "parts": {"a": 1.0, "b": 2.0}}
if rank == 1:
    del logs["parts"]["b"]
reduce_tree(logs)
dist.barrier()
