"""Finds the frames of a segment: following lengths, checking checksums, searching behind damage."""
