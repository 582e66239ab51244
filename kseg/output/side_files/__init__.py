"""Prints side files as kafka-dump-log.sh does, and as JSON Lines."""
