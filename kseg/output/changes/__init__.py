"""Prints plans, and the results of changing commands."""
