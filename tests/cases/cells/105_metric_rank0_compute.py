class Accuracy:
    def __init__(self):
        self.correct, self.total = torch.tensor(0.0), torch.tensor(0.0)

    def update(self, n):
        self.correct += n
        self.total += 10

    def compute(self):
        for state in (self.correct, self.total):
            dist.all_reduce(state)
        return self.correct / self.total

def rank_zero_only(fn):
    def wrapped(*args):
        return fn(*args) if rank == 0 else None
    return wrapped

@rank_zero_only
def log(name, metric):
    print(name, float(metric.compute()))

acc = Accuracy()
for epoch in range(2):
    acc.update(rank + 5)
    log("acc", acc)
    dist.barrier()
