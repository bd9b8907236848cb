"""The catalogue of faults: one file each, found by name in `FAULTS`."""

from .base import (
    FAULTS,
    Expectation,
    Fault,
    Hands,
    Interceptor,
    Issue,
    LeaveCell,
    OneShot,
    Param,
    PendingCall,
    PlannedFault,
)

__all__ = [
    "FAULTS",
    "Expectation",
    "Fault",
    "Hands",
    "Interceptor",
    "Issue",
    "LeaveCell",
    "OneShot",
    "Param",
    "PendingCall",
    "PlannedFault",
]
