"""Positions of fields in headers, and columns of rows: one definition for Python and C."""
