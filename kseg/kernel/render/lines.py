"""What the lines of one batch's records have in common: the flags and the structs of lines.pxd."""
