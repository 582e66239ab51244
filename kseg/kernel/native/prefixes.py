"""The structs of prefixes.h as prefixes.pxd declares them. The header explains their fields."""
