"""Checks segments, partitions and log directories: rules that yield findings."""
