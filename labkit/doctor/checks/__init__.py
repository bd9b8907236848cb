"""One check per file; each registers itself with `labkit.doctor.base.check`."""
