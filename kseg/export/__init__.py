"""Records of segments as columns in the Apache Arrow layout. Only `arrow`, `arrow_rows` and `tables` need pyarrow."""
