"""Logs in another format, codec or layout: what is read batch by batch is written as new segments."""
