class Meter:
    def __init__(self):
        self.total = torch.tensor([0.0, 0.0])
    def update(self, value, n):
        self.total += torch.tensor([value * n, n])
    def sync(self):
        dist.all_reduce(self.total.double())
        return self.total[0] / self.total[1]

m = Meter()
m.update(0.5 + rank, 10 * (rank + 1))
print(m.sync().item())
