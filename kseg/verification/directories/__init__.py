"""Checks log directories, their own files, and files outside of partitions."""
