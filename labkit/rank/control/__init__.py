"""Ops of the control channel: they answer while the main thread is stuck."""
