"""From frames to records and columns, and back."""
