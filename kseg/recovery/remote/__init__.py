"""Partitions rebuilt from remote storage, with what a broker's own disk has beyond it."""
