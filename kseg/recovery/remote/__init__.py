"""Rebuilds partitions from remote storage, and adds the newer segments on the broker's own disk."""
