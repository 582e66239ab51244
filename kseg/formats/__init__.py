"""The record formats, one module per format version; all decoders yield rows of records (`kseg.formats.rows`)."""
