"""Message schemas of internal records, as data: one module per topic."""
