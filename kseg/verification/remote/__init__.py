"""Checks of remote storage."""
