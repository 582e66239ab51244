"""Log-directory facts from outside a partition: topic settings and replicas in cluster metadata, transactional ids."""
