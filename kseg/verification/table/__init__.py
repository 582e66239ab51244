"""The sections of the table of findings; `kseg.findings.table` puts them together."""
