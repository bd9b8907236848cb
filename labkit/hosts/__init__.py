"""Several hosts on one machine: network namespaces joined by a bridge, each with a shaped link.

`labkit.start(4, hosts=2, rate="1gbit")` puts a world on them; `measure` shows what they cost.
"""

from __future__ import annotations

from ..driver.spaces import Hosts, Shape, why_not
from .measure import measure, recorded, report

__all__ = ["Hosts", "Shape", "measure", "recorded", "report", "why_not"]
