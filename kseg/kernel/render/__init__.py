"""Rows to text, JSON and CSV; the program that decodes internal topics."""
