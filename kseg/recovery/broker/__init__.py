"""What a start of a broker makes of a partition."""
