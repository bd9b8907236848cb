"""The catalogue of faults: each found by name in `FAULTS`; a file holds those of one kind."""

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
