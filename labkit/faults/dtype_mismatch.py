"""One rank's tensor has elements of another width."""

from __future__ import annotations

from typing import Any

from ._other_tensors import OtherTensors
from .base import Expectation, Fault, Param, declare

_HALF = {"float64": "float32", "float32": "float16", "int64": "int32"}
_DOUBLE = {"float16": "float32", "bfloat16": "float32", "float32": "float64", "int32": "int64"}


class DtypeMismatch(OtherTensors):
    """Casts the call's tensors to a narrower or a wider dtype of the same kind."""

    ops = frozenset(
        "all_reduce reduce broadcast all_gather all_gather_into_tensor reduce_scatter reduce_scatter_tensor "
        "all_to_all all_to_all_single send recv isend irecv sendrecv".split()
    )

    def other(self, tensor: Any) -> Any:
        import torch

        wanted = _HALF if self.params["width"] == "half" else _DOUBLE
        name = wanted.get(str(tensor.dtype).removeprefix("torch."))
        return None if name is None else tensor.detach().to(getattr(torch, name))


declare(
    Fault(
        name="dtype-mismatch",
        title="One rank's tensor has elements of another width",
        teaches=(
            "What travels between ranks is bytes, and nothing says what they mean. "
            "Here one rank's tensor is float16 where the others have float32, as with mixed precision that is switched on in "
            "one place only. "
            "The numbers of elements agree, the numbers of bytes do not: on gloo the rank that made room for fewer bytes is "
            "ended by the library, without a Python exception. "
            "Had the widths been the same (float32 and int32), the bytes would simply have been read as other numbers."
        ),
        cure=(
            "Cast to one dtype just before the collective, on every rank, and read the dtype from the configuration that all "
            "ranks share."
        ),
        demo=("grad = torch.full((4096,), float(rank + 1))\ndist.all_reduce(grad)\ndist.barrier()\ngrad[:4].tolist()\n"),
        expect={
            "raw": Expectation("abort", ("LK005", "LK001")),
            "safe": Expectation("error", ("LK014", "LK005")),
        },
        make=DtypeMismatch,
        params={"width": Param("half", "the width of this rank's elements beside the others'", choices=("half", "double"))},
        replaces_rank=True,
        in_schedule=Expectation("abort", ("LK005", "LK001")),  # a message shorter than its place passes, and is silent
    )
)
