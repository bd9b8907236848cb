import os, tempfile
folder = os.path.join(tempfile.gettempdir(), f"adv-{rank}")
os.makedirs(folder, exist_ok=True)
path = os.path.join(folder, "last.ckpt")
if rank == 0:
    torch.save({"w": torch.ones(4)}, path)
dist.barrier()

def resume():
    if not os.path.exists(path):
        print("no checkpoint, starting from scratch")
        return torch.zeros(4)
    w = torch.load(path)["w"]
    dist.broadcast(w, src=0)
    return w

weights = resume()
dist.all_reduce(weights)
