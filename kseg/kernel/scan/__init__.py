"""Frames of a segment: from header to header, checksums, and the search behind damage."""
