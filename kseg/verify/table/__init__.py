"""The sections of the table of findings; `kseg.verify.findings` puts them together."""
