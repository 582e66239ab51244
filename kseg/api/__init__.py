"""The Python interface behind the names of `kseg`. See kseg(3)."""
