"""LK022 message-size."""

from __future__ import annotations

from ...vocabulary import Ending, Standing
from ...wire import Call, Verdict
from .. import words
from ..alignment import Alignment
from ..deaths import way_of_death
from ..rule import Rule, rule


@rule
class MessageSize(Rule):
    """A message is received as another size or dtype than it was sent as.

    What: A send and the recv that it meets have tensors of different size or dtype.
    Why: A short last batch, a buffer made for another layer, a cast on one side only; or one message more on one side, so that
    from there on each recv gets the message before.
    Evidence: The send and the recv that meet, by group, ranks, tag and order. With a longer message gloo ends the receiver's
    process; a shorter one leaves the rest of the buffer as it was, without an error.
    Remedy: Make the receiver's buffer like the tensor that is sent: send its shape first where that can vary.
    """

    code = "LK022"
    name = "message-size"
    title = "A message does not fit its receiver"
    priority = 15

    def claim(self, world: Alignment) -> Verdict | None:
        found = world.odd_message
        if found is None or (world.waits and not world.stalled(tuple(world.waits))):
            return None
        sent, received = found.sent, found.received
        died = world.standing(found.receiver) == Standing.DEAD
        if not (died or world.over or world.waits):
            return None
        if died:
            effect = f"; rank {found.receiver} died of it ({way_of_death(world.views[found.receiver])})"
        elif sent.num_bytes < received.num_bytes:
            effect = ": the rest of the receiver's tensor stays as it was"
        else:
            effect = ""
        waits = words.wait_text(world, words.others_waiting(world, (found.sender, found.receiver)))
        return self.say(
            world,
            f"rank {found.sender} sends {_sized(sent)} to rank {found.receiver}{words.at(sent.site)}, which receives it as "
            f"{_sized(received)}{words.at(received.site)}{effect}{f'; {waits}' if waits else ''}",
            tuple(sorted((found.sender, found.receiver))),
            sides=(
                words.side(world.evidence, (found.sender,), f"sent {_sized(sent)}", sent.site),
                words.side(world.evidence, (found.receiver,), f"received {_sized(received)}", received.site),
            ),
            fix="Give both sides a tensor of the same shape and dtype",
            facts=words.last_calls(world, (found.sender, found.receiver)),
            ending=Ending.ABORT if died else words.ending(world, {found.sender: sent, found.receiver: received}),
        )


def _sized(call: Call) -> str:
    return f"a tensor of {words.sized(call)}"
