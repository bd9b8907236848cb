def batch(ops):
    for w in dist.batch_isend_irecv(ops):
        w.wait()
x, y, z = torch.ones(3), torch.empty(3), torch.empty(3)
if rank == 0:
    batch([dist.P2POp(dist.isend, x, 1), dist.P2POp(dist.irecv, y, 2)])
elif rank == 1:
    dist.recv(y, 2)
    dist.recv(z, 0)
else:
    dist.recv(y, 1)
    dist.send(x, 0)
