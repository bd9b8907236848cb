"""Are there worlds that outlived their notebook?"""

from __future__ import annotations

from ...runfolder import OWN_FOLDER, FoundWorlds, find_worlds
from ..base import Context, Finding, check


def judge_strays(found: FoundWorlds) -> Finding:
    states = ("owned", "stray", "dead", "elsewhere")
    by_state = {state: [world for world in found.worlds if world.state == state] for state in states}
    pids = tuple(pid for world in by_state["stray"] for pid in world.living)
    facts = {"pids": pids, "damaged": found.damaged, **{state: len(worlds) for state, worlds in by_state.items()}}
    if found.distrust:
        return Finding("warn", f"{found.distrust}; what is in it is not believed", OWN_FOLDER, facts)
    if pids:
        worlds = len(by_state["stray"])
        text = f"{_many(len(pids), 'process', 'es')} of {_many(worlds, 'world')} whose notebook is gone"
        return Finding("warn", text, "labkit stop ends exactly those", facts)
    if found.damaged:
        step = "remove the folder if no world of yours runs"
        return Finding("note", f"{found.damaged[0]} has no readable world.json", step, facts)
    running = f"{_many(len(by_state['owned']), 'world')} running" if by_state["owned"] else "no world running"
    if by_state["dead"]:
        text = f"{running}; {_many(len(by_state['dead']), 'folder')} of ended worlds"
        return Finding("note", text, "labkit stop removes them", facts)
    return Finding("ok", f"{running}, nothing left over", facts=facts)


def _many(count: int, word: str, plural: str = "s") -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}{plural}"


@check("strays", "Left over", order=61)
def run(context: Context) -> Finding:
    return judge_strays(find_worlds(context.run_root))
