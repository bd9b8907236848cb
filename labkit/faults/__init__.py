"""The catalogue of faults: one file each, found by name in `FAULTS`."""

from .base import (
    FAULTS,
    Expectation,
    Fault,
    FaultContext,
    Interceptor,
    Issue,
    LeaveCell,
    OneShot,
    Param,
    PendingCall,
    PlannedFault,
)  # fmt: skip

__all__ = [
    "FAULTS", "Expectation", "Fault", "FaultContext", "Interceptor", "Issue", "LeaveCell", "OneShot", "Param", "PendingCall",
    "PlannedFault",
]  # fmt: skip
