"""Rules that changed between Kafka releases, one module per subject; no other folder compares release numbers."""
