"""Facts about partitions from outside them: checkpoints, cluster metadata, settings, remote storage."""
