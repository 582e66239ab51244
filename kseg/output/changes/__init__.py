"""Prints plans, and what changing commands did."""
