"""Instruments: what a world can measure, show or run beyond a cell, each a function over `driver.core.WorldCore`.

    @instrument
    def tensors(world: WorldCore, name: str, limit: int = 64) -> TensorTable: ...

A file here is loaded on first use, and its function is then a method of every world: `world.tensors("x")`.
Another package joins through the entry point group `labkit.instruments`: each entry names a module to load.
"""
