"""The error that a rank raises when safe mode has ended its wait: the reason, where torch speaks of a closed connection."""

from __future__ import annotations

from ..diagnosis.standing import is_echo
from ..errors import ContractError
from ..wire import CallSite, CodeError
from .context import RankContext

NOT_ISSUED = "no rank has issued this call: fix the cell and run it again"
ISSUED = "calls had been issued, so the process groups are broken: fix the cell; world.recover() forms new groups"


def ended_wait(context: RankContext, error: BaseException, site: CallSite | None) -> ContractError | None:
    """The ContractError in place of `error`, if that only says that safe mode has cut this rank's connections; else None.

    `site` is the learner's line that waited.
    """
    if isinstance(error, KeyboardInterrupt):
        caused = context.wait_cut
    else:
        caused = context.told and is_echo(CodeError(type(error).__name__, str(error)))
    if not caused or isinstance(error, ContractError):
        return None
    where = f" at {site}" if site is not None else ""
    told = ContractError(f"the wait{where} was ended: {context.refusal}", hint=ISSUED)
    told.__context__ = error.__context__  # what the learner's code was handling, not torch's error
    return told.with_traceback(error.__traceback__)
