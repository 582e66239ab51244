"""Prints the findings of `kseg verify`: as text, JSON Lines, or JUnit."""
