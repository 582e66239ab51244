"""The interpreted twins of the structs in prefixes.h, which says what their fields hold."""

from kseg.kernel.cython import constants

globals().update(constants(__name__))


class PrefixTable:
    __slots__ = ("crcs", "end", "end_crc", "factor", "filled", "shifted", "start", "start_crc")


class Prefixes:
    __slots__ = ("anchor", "castagnoli", "ieee")

    def __init__(self):
        self.castagnoli, self.ieee = PrefixTable(), PrefixTable()
