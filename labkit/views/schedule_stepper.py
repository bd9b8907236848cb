"""The schedule stepper: a small widget of ours that plays a trace. All of its logic is in static/stepper.js."""

from __future__ import annotations

import functools
from importlib import resources
from typing import Any

from ..errors import UsageError
from ..schedule import Schedule, Trace
from ..schedule import trace as frames_of
from ..units import is_number, is_whole
from . import schedule_plain as plain
from ._base import to_html, to_text
from .schedule_geometry import place

LARGEST = 64  # ranks; more arrows are a blur
_CHUNK = 256  # elements of 4 bytes, where only a schedule is given
SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0)


def source(name: str) -> str:
    """A file of the widget."""
    return resources.files("labkit.views").joinpath(f"static/{name}").read_text(encoding="utf-8")


@functools.cache
def widget_class() -> type:
    """The widget, made when it is first wanted: widgets take a tenth of a second to import."""
    import anywidget
    import traitlets

    class Stepper(anywidget.AnyWidget):
        """`step` is 0 at the start and k after step k; both it and `speed` may be set from Python too."""

        _esm = source("stepper.js")
        _css = source("stepper.css")
        picture: traitlets.Dict[str, Any] = traitlets.Dict().tag(sync=True)
        step = traitlets.Int(0).tag(sync=True)
        speed = traitlets.Float(1.0).tag(sync=True)

        def __init__(self, trace: Trace, **traits: Any) -> None:
            super().__init__(picture=plain.picture(trace, place(trace)), **traits)
            self._trace = trace

        def _repr_mimebundle_(self, **kwargs: Any) -> Any:
            """Beside the widget the still forms, for where no widget is shown."""
            made = super()._repr_mimebundle_(**kwargs)
            if made is None:
                return None
            data, metadata = made
            return {**data, "text/plain": to_text(self._trace), "text/html": to_html(self._trace)}, metadata

    return Stepper


def stepper(trace: Trace | Schedule, *, step: int = 0, speed: float = 1.0) -> Any:
    """The widget that plays a trace: play, pause, step, scrub; with the keyboard space, the arrows, Home and End.

    Of a schedule it makes the trace itself, with 1 KiB in each chunk; `trace(schedule, num_elements)` chooses another size.
    """
    if isinstance(trace, Schedule):
        trace = frames_of(trace, _CHUNK * trace.num_chunks // (trace.world_size if trace.promise.start == "row" else 1))
    if not isinstance(trace, Trace):
        raise UsageError(f"a {type(trace).__name__} is no trace", hint="give trace(schedule, num_elements), or the schedule")
    if trace.world_size > LARGEST:
        raise UsageError(f"no stepper for {trace.world_size} ranks", hint=f"at most {LARGEST} can be shown")
    if not is_whole(step) or not 0 <= step <= len(trace.frames):
        raise UsageError(f"{trace.name} has no step {step!r}", hint=f"0 is the start, {len(trace.frames)} the end")
    if not is_number(speed) or speed not in SPEEDS:
        raise UsageError(f"no speed {speed!r}", hint=f"speeds are {', '.join(f'{each:g}' for each in SPEEDS)}")
    return widget_class()(trace, step=step, speed=speed)
