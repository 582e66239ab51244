"""Comparison of two replicas of a partition."""
