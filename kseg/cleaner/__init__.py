"""Log compaction on files at rest, as by Kafka's log cleaner (Cleaner, LogCleanerManager; KIP-58, KIP-534, KIP-724)."""
