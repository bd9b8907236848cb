"""A trace in words: its title, who has sent how much, and a line per step."""

from __future__ import annotations

from ..errors import count
from ..phrases import WIDTH, wrapped
from ..units import format_bytes
from .trace import StepFrame, Trace

_STEPS = 24  # that are told
_LINES = 2  # of one step; one that takes more is cut to one


def title(trace: Trace) -> str:
    """For instance "ring: all-reduce on 4 ranks, 6 steps"."""
    return f"{trace.name}: {trace.title} on {count(trace.world_size, 'rank')}, {count(len(trace.frames), 'step')}"


def summary(trace: Trace, position: int) -> str:
    """The counters of all ranks in one line."""
    frame = trace.frames[position - 1] if position else None
    sent = frame.sent_bytes if frame else (0,) * trace.world_size
    messages = frame.sent_messages if frame else (0,) * trace.world_size
    low, high = format_bytes(min(sent)), format_bytes(max(sent))
    volume = low if low == high else f"{low} to {high}"
    fewest, most = min(messages), max(messages)
    many = count(most, "message") if fewest == most else f"{fewest} to {most} messages"
    return f"each rank has sent {volume} in {many}; together {format_bytes(sum(sent))} in {count(sum(messages), 'message')}"


def chunk_range(low: int, high: int) -> str:
    return str(low) if high == low + 1 else f"{low}-{high - 1}"


def text(trace: Trace, width: int = WIDTH, lines: int = _LINES) -> str:
    """Short enough to read: the steps, then who sent how much, then what is wrong; each step has so many lines, or is cut."""
    told = [wrapped(title(trace), width), *(_step(frame, width, lines) for frame in trace.frames[:_STEPS])]
    if len(trace.frames) > _STEPS:
        told.append(f"... {count(len(trace.frames) - _STEPS, 'more step')}")
    told.append(wrapped(f"at the end {summary(trace, len(trace.frames))}", width))
    return "\n".join([*told, *(wrapped(problem.sentence, width) for problem in trace.problems)])


def _step(frame: StepFrame, width: int, lines: int) -> str:
    moves = " ".join(f"{t.src}>{t.dst}{'+' if t.reduce else '='}{chunk_range(t.chunk_lo, t.chunk_hi)}" for t in frame.transfers)
    line = f"{frame.step} {frame.phase or '-'}: {moves}"
    whole = wrapped(line, width)
    if whole.count("\n") < lines:
        return whole
    return wrapped(line, width, most=1, rest=f" ... {count(len(frame.transfers), 'transfer')}")
