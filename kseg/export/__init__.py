"""Records of segments as columns in the Apache Arrow layout. Only `kseg.export.arrow` needs pyarrow."""
