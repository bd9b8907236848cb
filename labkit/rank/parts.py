"""What a library's own call belongs to: the name that the learner's line has, or the part of the model that it is for.

It is looked for only where the learner's line is not the direct caller: a walk up the frames, one dictionary look-up each.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType

from torch.distributed import GradBucket

from ..frames import is_users_file
from ..phrases import few

Named = tuple[str, str]  # the function on the line (`Call.asked`), and what the call belongs to (`Call.part`)
NOTHING: Named = ("", "")


def find_part(frame: FrameType | None) -> Named:
    """What the frames of libraries say, up to the learner's own line: the function that it calls, and the innermost part.

    A library that is not known here is told by the outermost function that was called: "clip_grad_norm_".
    """
    asked = part = called = ""
    while frame is not None:
        code = frame.f_code
        if code.co_filename in _READERS:
            read = _READERS[code.co_filename]
        else:
            read = _READERS[code.co_filename] = _reader(code.co_filename)
        if read is _users_line:
            return asked, part or called
        if read is not None:
            function, belongs = read(frame)
            if function:  # a later one is nearer to the line
                asked, called = function, ""
            part = part or belongs
        elif not code.co_name.startswith(("_", "<")) and code.co_name not in _WRAPPERS:
            asked, called = "", code.co_name if "<locals>" in code.co_qualname else code.co_qualname
        frame = frame.f_back
    return asked, part  # a thread of a library's


_WRAPPERS = ("wrapper", "inner", "inner_func", "decorate_context", "wrapped", "fn", "func", "dispatch")
_Reader = Callable[[FrameType], Named]


def _users_line(frame: FrameType) -> Named:
    return NOTHING


def _reader(filename: str) -> _Reader | None:
    if is_users_file(filename):
        return _users_line
    return next((read for end, read in _BY_FILE.items() if end in filename), None)


_READERS: dict[str, _Reader | None] = {}


# ---- one reader for each library
def _ddp(frame: FrameType) -> Named:
    """DistributedDataParallel's construction and its buffers; its gradients have no frame of Python's."""
    return "", _DDP.get(frame.f_code.co_name, "")


_DDP = {
    "__init__": "DDP's construction", "_sync_module_buffers": "DDP's buffers", "_sync_buffers": "DDP's buffers",
    "_pre_forward": "DDP's new buckets",
    "_check_global_requires_backward_grad_sync": "DDP's join", "_sync_final_model": "DDP's join",
}  # fmt: skip


def _comm_hook(frame: FrameType) -> Named:
    bucket = frame.f_locals.get("bucket")
    return ("", f"DDP's gradient bucket {bucket.index()}") if isinstance(bucket, GradBucket) else NOTHING


def _fsdp2(frame: FrameType) -> Named:
    """A group of parameters of `fully_shard`."""
    act = FSDP2.get(frame.f_code.co_name)
    group = frame.f_locals.get("self")
    if act is None or group is None:
        return NOTHING
    return "", f"FSDP's {act} of {_module(getattr(group, '_module_fqn', None))}"


def _module(name: str | None) -> str:
    """A module by its name in the model: "layers.0", "module 0", "the root module"."""
    return "the root module" if not name else f"module {name}" if name.isdigit() else name


FSDP2 = {"unshard": "all-gather", "wait_for_unshard": "all-gather", "post_backward": "reduce-scatter"}


def _fsdp1(frame: FrameType) -> Named:
    """A flat parameter of FullyShardedDataParallel."""
    act = FSDP1.get(frame.f_code.co_name)
    handle = frame.f_locals.get("handle") or frame.f_locals.get("self")
    if act is None or handle is None:
        return NOTHING
    return "", f"FSDP's {act} of {few(getattr(getattr(handle, 'flat_param', None), '_fqns', ())) or 'a module'}"


FSDP1 = {"_all_gather_flat_param": "all-gather", "_reduce_grad": "reduce-scatter", "_reduce_grad_no_shard": "all-reduce"}


def _by_function(frame: FrameType) -> Named:
    """The outermost function of a file that the learner calls directly: its own name is on the line."""
    name = frame.f_code.co_name
    outer = frame.f_back
    while outer is not None and outer.f_code.co_filename == frame.f_code.co_filename:
        name, outer = outer.f_code.co_name, outer.f_back
    return (name, "") if not name.startswith(("_", "<")) and name not in ("forward", "backward") else NOTHING


def _sync_batch_norm(frame: FrameType) -> Named:
    act = frame.f_code.co_name
    return ("", f"SyncBatchNorm's {act}") if act in ("forward", "backward") else NOTHING


def _nothing_more(frame: FrameType) -> Named:
    """DTensor's insides: what the learner has called says it all, or nothing does."""
    return NOTHING


def _of(part: str) -> _Reader:
    return lambda frame: ("", part)


_BY_FILE: dict[str, _Reader] = {
    "torch/nn/parallel/distributed.py": _ddp,
    "torch/distributed/algorithms/ddp_comm_hooks/": _comm_hook,
    "torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py": _fsdp2,
    "torch/distributed/fsdp/_flat_param.py": _fsdp1,
    "torch/distributed/fsdp/_runtime_utils.py": _fsdp1,
    "torch/distributed/_functional_collectives.py": _by_function,
    "torch/distributed/tensor/_api.py": _by_function,
    "torch/distributed/nn/functional.py": _by_function,
    "torch/nn/modules/_functions.py": _sync_batch_norm,
    "torch/distributed/pipelining/": _of("the pipeline schedule"),
    "torch/distributed/tensor/": _nothing_more,
    "torch/distributed/algorithms/join.py": _of("the Join context"),
}
