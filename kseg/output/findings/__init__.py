"""Findings in the forms that `kseg verify` prints: text, JSON Lines, JUnit."""
