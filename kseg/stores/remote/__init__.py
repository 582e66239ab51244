"""Remote (tiered) storage as brokers and their plugins leave it: names, manifests, chunks, and segments as sources."""
