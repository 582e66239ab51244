"""Conversion of logs to another format, codec or layout. Batches are read one by one and written to new segments."""
