"""Packed files and archives: decompressed into an unnamed temporary file, listed, and read in place."""
