"""Plans the recovery of damaged or crashed partitions: as a broker's start does, or keeping all intact batches."""
