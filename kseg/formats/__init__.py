"""What the bytes mean, one file an era; all of them yield the same rows of records (`kseg.formats.rows`)."""
