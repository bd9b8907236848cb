"""Pictures of records: for each kind of record a text form and an HTML form.

One file per kind, each registering itself in VIEWS under the record's class name. A view is pure: the
same record always draws the same text, so that an executed notebook can be compared with a saved one.
"""

from __future__ import annotations

from ._base import VIEWS, View, to_html, to_text

__all__ = ["VIEWS", "View", "to_html", "to_text"]
