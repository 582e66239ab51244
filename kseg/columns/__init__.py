"""Records of segments as columns that Apache Arrow takes as they are; `kseg.columns.arrow` alone needs pyarrow."""
