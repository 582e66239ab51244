"""Runs a changing command over its PATHs: find partitions, lock, plan, report, apply, and sum up."""
