"""The schemas of internal records, as data: one file a topic."""
