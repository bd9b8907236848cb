"""Several hosts on one machine: network namespaces joined by a bridge, each with a shaped link."""

from __future__ import annotations

from ..driver.spaces import Hosts, Shape, why_not

__all__ = ["Hosts", "Shape", "why_not"]
