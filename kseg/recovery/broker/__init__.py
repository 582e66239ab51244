"""Recovers partitions as a broker's start does."""
