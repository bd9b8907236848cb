"""The algorithms, each found by name in `ALGORITHMS`; a file holds one family."""
