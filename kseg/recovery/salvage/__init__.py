"""All that is intact in a partition, in offset order."""
