import threading, time

def save():
    if rank == 1:
        time.sleep(0.5)
    dist.barrier()

t = threading.Thread(target=save); t.start()
if rank == 0: time.sleep(0.3)
x = torch.ones(2); dist.all_reduce(x)
t.join()
