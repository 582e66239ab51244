"""Rows in, text out. Rooms here know rows and items, not commands."""
