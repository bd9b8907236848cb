"""One file per measure; each registers itself."""
