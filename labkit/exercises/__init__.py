"""The checks that labs call, one file per lab, and the tools that labs share.

A check is a pure function of a learner's answer. It returns a sentence for a right answer and raises
`NotYet` for any other: what is not right, and where to look, but not the solution. Where a lab asks for a
prediction first, the sentence is a `Found` (`guess.py`): it carries the answer that the prediction is held against.
"""

from __future__ import annotations

from ._base import CHECKS, NotYet, prediction_of

__all__ = ["CHECKS", "NotYet", "prediction_of"]
