"""A read-only Kafka broker over files: the protocol, the logs and groups that are served, the connections."""
