"""Facts about partitions from outside them: checkpoints, cluster metadata, settings, internal topics, remote storage."""
