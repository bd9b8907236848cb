metrics = {"acc": torch.ones(1), "loss": torch.ones(4), "lr": torch.ones(2)}
def average(metrics, names):
    for name in names:
        dist.all_reduce(metrics[name])
names = ["acc", "loss", "lr"] if rank != 1 else ["loss", "acc", "lr"]
average(metrics, names)
