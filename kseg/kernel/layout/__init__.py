"""Where fields lie in headers and rows: one definition for Python and C."""
