"""Side files as kafka-dump-log.sh prints them, and as JSON Lines."""
