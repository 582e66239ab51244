"""Usable cores, threads and worker processes."""
