import ctypes
def native():
    ctypes.string_at(0)
x = torch.ones(3)
if rank == 1:
    native()
dist.all_reduce(x)
