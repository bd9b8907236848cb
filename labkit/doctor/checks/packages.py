"""Are labkit and everything it needs installed, in versions that fit?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .. import versions
from ..base import Context, Finding, check


def judge_packages(labkit: str, wanted: Sequence[str], have: Mapping[str, str | None]) -> Finding:
    """`have` maps a distribution's name to its version, None if it is not installed."""
    facts = {"labkit": labkit, **{name: version or "" for name, version in have.items()}}
    wrong, install = [], []
    pairs = [pair for pair in map(versions.parse_requirement, wanted) if pair is not None]
    for name, span in pairs:
        version = have.get(name)
        if version is None:
            wrong.append(f"{name} is missing")
        elif not versions.fits(version, span):
            wrong.append(f"{name} is {version}, needed is {span}")
        else:
            continue
        install.append(f"'{name}{span}'")
    if wrong:
        return Finding("fail", "; ".join(wrong), f"uv pip install {' '.join(install)} (or python -m pip install ...)", facts)
    if not pairs:
        return Finding("warn", f"labkit {labkit} does not say what it needs", "install labkit again", facts)
    return Finding("ok", f"labkit {labkit} and the {len(pairs)} packages it needs", facts=facts)


@check("packages", "Packages", order=11)
def run(context: Context) -> Finding:
    lines = versions.wanted()
    names = [pair[0] for pair in map(versions.parse_requirement, lines) if pair is not None]
    return judge_packages(versions.labkit_version(), lines, {name: versions.installed(name) for name in names})
