"""Log directories, their own files, and files that no partition owns."""
