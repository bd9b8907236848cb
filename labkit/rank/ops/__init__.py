"""Ops of the main channel: plain values in, plain values out. One file each."""
