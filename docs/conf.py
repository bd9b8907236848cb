"""Sphinx settings. `make docs` treats a warning as an error."""

import tomllib
from pathlib import Path

_PROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]

project = "labkit"
version = release = _PROJECT["version"]
copyright = "the labkit authors"
extensions = ["myst_parser"]
myst_enable_extensions = ["deflist", "attrs_inline"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = f"labkit {version}"
html_show_sourcelink = False
nitpicky = True
exclude_patterns = ["build"]
