"""See, break, diagnose and mend the communication of multi-GPU training, in a notebook.

    import labkit
    world = labkit.start(ranks=4)
    world.diagnose()

Importing labkit loads nothing heavy: each name below arrives on first use.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["__version__", "current", "doctor", "errors", "lab", "load_ipython_extension", "start", "torchrun"]

if TYPE_CHECKING:
    from . import errors
    from .doctor import run_checks as doctor
    from .instruments.labnote import lab
    from .instruments.scripts import torchrun
    from .notebook import current, load_ipython_extension, start

# name -> (module, attribute); no attribute means the module itself
_HOMES = {
    "start": ("notebook", "start"),
    "current": ("notebook", "current"),
    "errors": ("errors", ""),
    "lab": ("instruments.labnote", "lab"),
    "torchrun": ("instruments.scripts", "torchrun"),
    "load_ipython_extension": ("notebook", "load_ipython_extension"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'labkit' has no attribute {name!r}")
    module_name, attribute = _HOMES[name]
    module = importlib.import_module(f"{__name__}.{module_name}")
    value = getattr(module, attribute) if attribute else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__


class _Facade(ModuleType):
    """Keeps `labkit.doctor` a function, although the import system binds the package of that name here."""

    @property
    def doctor(self) -> Any:
        return importlib.import_module(f"{__name__}.doctor").run_checks

    @doctor.setter
    def doctor(self, package: ModuleType) -> None:
        pass


sys.modules[__name__].__class__ = _Facade
