"""Records of segments as columns in the Apache Arrow layout. Only `kseg.columns.arrow` needs pyarrow."""
