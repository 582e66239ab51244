"""What another replica has of what is missing."""
