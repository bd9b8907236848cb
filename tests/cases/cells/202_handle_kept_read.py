class Reducer:
    def __init__(self):
        self.handles = []

    def hook(self, grad):
        buffer = grad.clone()
        self.handles.append(dist.all_reduce(buffer, async_op=True))
        return buffer

reducer = Reducer()
w = torch.nn.Parameter(torch.ones(1 << 18))
(w * (rank + 1)).sum().backward()
g = reducer.hook(w.grad)
with torch.no_grad():
    w -= 0.1 * g / world_size
print(float(w[0]))
