left, right = dist.new_group([0, 1]), dist.new_group([2, 3])
mine = right if rank == 2 else left
x = torch.ones(2) * rank
out = [torch.empty(2) for _ in range(2)]
dist.all_gather(out, x, group=mine)
dist.barrier()
