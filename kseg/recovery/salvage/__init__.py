"""``recover --mode salvage``: keeps all intact batches of a partition, in offset order."""
