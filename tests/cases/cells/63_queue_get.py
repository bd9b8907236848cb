import queue
work = queue.Queue()
def fetch():
    return work.get()
if rank != 1:
    work.put(1)
item = fetch()
dist.all_reduce(torch.ones(2))
