"""Usable cores, threads, worker processes, progress, and writeback of files while they are written."""
