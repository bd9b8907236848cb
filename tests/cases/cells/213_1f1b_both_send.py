peer = 1 - rank
act = torch.ones(1 << 20)
grad = torch.empty(1 << 20)
if rank == 0:
    dist.send(act, peer)
    for step in range(2):
        # forward of the next, then backward
        dist.send(act, peer)
        dist.recv(grad, peer)
    dist.recv(grad, peer)
else:
    for step in range(3):
        dist.recv(act, peer)
        y = act * 2
        # gradient goes back at once
        dist.send(y, peer)
