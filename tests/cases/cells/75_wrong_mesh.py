from torch.distributed.device_mesh import init_device_mesh
shape = (2, 2) if rank != 1 else (4, 1)
mesh = init_device_mesh("cpu", shape, mesh_dim_names=("dp", "tp"))
dist.all_reduce(torch.ones(1), group=mesh["dp"].get_group())
dist.barrier()
