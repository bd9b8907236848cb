"""Long trials of a whole world: `python -m benchmarks.stress chaos` and `... confusion`."""
