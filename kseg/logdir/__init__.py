"""What a log directory knows of its partitions beside them: the cluster's metadata and the topics' settings in it."""
