"""Speed beside Kafka's own tools, in one run: ``python -m benchmarks`` (see ``--help``)."""
