"""Protection against truncation of mapped files, positioned reads, and write-behind."""
