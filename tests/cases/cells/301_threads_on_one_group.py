import threading, time
def log():
    time.sleep(0.4 if rank == 1 else 0.1)
    dist.broadcast(torch.ones(2), src=0)
t = threading.Thread(target=log); t.start()
time.sleep(0.25)
dist.all_reduce(torch.ones(3))
t.join()
