"""The structs of prefixes.h, which says what their fields hold, as prefixes.pxd declares them."""
