"""One file per algorithm, found by name in `ALGORITHMS`."""
