"""One rank expects other splits in an all-to-all."""

from __future__ import annotations

from typing import Any

from ._forms import arguments, changed, group_members
from .base import Expectation, Fault, Issue, OneShot, PendingCall, declare


class SplitsMismatch(OneShot):
    """Takes one row less from one rank, and one more from another."""

    def applies(self, call: PendingCall) -> bool:
        return call.op == "all_to_all_single" and self._other(call) is not None

    def _other(self, call: PendingCall) -> list[int] | None:
        """The changed splits, of as many rows; None where there is nothing to move."""
        given, members = arguments(call), group_members(call, self.context.world_size)
        size = len(members)
        splits = list(given.get("output_split_sizes") or [int(given["output"].shape[0]) // max(size, 1)] * size)
        if size < 2 or len(splits) != size:
            return None
        mine = members.index(self.context.rank)
        less = next((at for at in range(size) if at != mine and splits[at] > 0), None)
        if less is None:
            return None
        more = next((at for at in range(size) if at not in (mine, less)), mine)
        splits[less], splits[more] = splits[less] - 1, splits[more] + 1
        return splits

    def act(self, call: PendingCall, issue: Issue) -> Any:
        return issue(changed(call, output_split_sizes=self._other(call)))


declare(
    Fault(
        name="splits-mismatch",
        title="One rank expects other splits in an all-to-all",
        teaches=(
            "In an all-to-all every rank gives each other rank a part, and says how much it takes from each; the two must agree "
            "for every pair. "
            "Here one rank takes a row too few from one rank and a row too many from another, as a mixture of experts does when "
            "it computes the counts of its tokens on each rank by itself. "
            "The sums fit, so neither shapes nor sizes tell it. "
            "Gloo ends the process of a rank that is sent more than it has room for, and the others lose their connection."
        ),
        cure="Exchange the counts first, with an all_to_all_single of one number for each rank, and split by what is told there.",
        demo=(
            "rows = torch.full((2 * world_size, 4), float(rank))\n"
            "came = torch.empty_like(rows)\n"
            "dist.all_to_all_single(came, rows, [2] * world_size, [2] * world_size)\n"
            "came.sum().item()\n"
        ),
        expect={
            "raw": Expectation("abort", ("LK023", "LK003")),
            "safe": Expectation("error", ("LK023",)),
        },
        make=SplitsMismatch,
        replaces_rank=True,
    )
)
