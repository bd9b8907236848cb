class Config:
    def __reduce__(self):
        return (explode, ())
def explode():
    if rank == 1:
        raise ModuleNotFoundError("No module named 'cfg'")
    return 3
box = [Config()] if rank == 0 else [None]
dist.broadcast_object_list(box, src=0)
dist.barrier()
