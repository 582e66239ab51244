"""Compaction: key hashes, the key map, survivors, rewritten batches."""
