"""What a damaged or crashed partition should look like: as a broker's start leaves it, or with all that is intact."""
