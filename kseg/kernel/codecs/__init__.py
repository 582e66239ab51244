"""Compressed areas: expanding, packing, recoding."""
