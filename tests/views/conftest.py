"""Gives the views' tests their sample records."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def samples() -> ModuleType:
    """The module samples.py beside this file."""
    spec = importlib.util.spec_from_file_location("labkit_view_samples", Path(__file__).with_name("samples.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
