"""Positions of fields in the headers of batches and messages, and bits of their attributes: see headers.pxd."""
