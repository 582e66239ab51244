"""Judges what a broker's disk holds: rules that yield findings, and the table of all findings."""
