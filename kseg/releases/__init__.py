"""Rules that changed between Kafka releases, one module per subject; no other room compares release numbers."""
