"""Records of segments as columns in the Apache Arrow layout. Only `arrow` needs pyarrow."""
