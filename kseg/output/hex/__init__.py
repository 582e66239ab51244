"""The bytes of segments, field by field (`kseg dump --hex`)."""
