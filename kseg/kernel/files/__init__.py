"""Mapped files that are cut while they are read, and files that are written from start to end."""
