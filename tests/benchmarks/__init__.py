"""Speed beside Kafka's own tools, in one run: ``python -m tests.benchmarks`` (see ``--help``)."""
