"""One rank's tensor has another size."""

from __future__ import annotations

from typing import Any

from ._other_tensors import OtherTensors
from .base import Expectation, Fault, Param, declare


class ShapeMismatch(OtherTensors):
    """Gives the call a tensor of half or of twice as many elements.

    On gloo's ring a rank receives from the next one: with the smaller tensor this rank's process is ended,
    with the larger one that of the rank before it. A few elements only may pass, with wrong values.
    """

    ops = frozenset({"all_reduce", "reduce", "broadcast", "all_gather", "send", "recv", "isend", "irecv", "sendrecv"})

    def other(self, tensor: Any) -> Any:
        if tensor.numel() < 2:
            return None
        flat = tensor.detach().flatten()
        return flat[: tensor.numel() // 2].clone() if self.params["size"] == "smaller" else flat.repeat(2)


declare(
    Fault(
        name="shape-mismatch",
        title="One rank's tensor has another size",
        teaches=(
            "Ranks don't tell each other how long their tensors are: each sends what it has and makes room for as much. "
            "Here one rank's tensor is of another size, as with a last batch that is shorter, or a model built with another "
            "vocabulary. "
            "On the CPU backend, gloo, a message that is longer than the room made for it ends the receiving process on the "
            "spot, inside a thread of the library: no Python exception, no traceback, the process is gone. "
            "What its neighbours see is a closed connection, or a timeout."
        ),
        cure=(
            "Make the sizes equal before the call: drop or pad the short batch, or gather the sizes first and pad to the largest."
        ),
        demo=("batch = torch.arange(4096.0) + rank\ndist.all_reduce(batch)\ndist.barrier()\nbatch[:4].tolist()\n"),
        expect={
            "raw": Expectation("abort", ("LK005", "LK001")),
            "safe": Expectation("error", ("LK014", "LK005")),
        },
        make=ShapeMismatch,
        params={"size": Param("smaller", "this rank's tensor beside the others'", choices=("smaller", "larger"))},
        replaces_rank=True,
        in_schedule=Expectation("abort", ("LK005", "LK001")),  # a message shorter than its place passes, and is silent
    )
)
