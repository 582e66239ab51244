"""The state shared by the lines of the records of a batch: the flags and structs of lines.pxd."""
