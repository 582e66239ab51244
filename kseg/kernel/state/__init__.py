"""State that is kept from batch to batch: producers, epochs, index entries, replicas, counts."""
