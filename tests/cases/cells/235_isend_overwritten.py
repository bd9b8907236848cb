buf = torch.zeros(1 << 20)
if rank == 0:
    for i in range(3):
        buf.fill_(float(i))
        work = dist.isend(buf, dst=1)
        buf.add_(100)
        work.wait()
else:
    for i in range(3):
        dist.recv(buf, src=0)
        print(buf[0].item(), buf[-1].item())
