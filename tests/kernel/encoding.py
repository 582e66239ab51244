"""Makes bytes of Kafka's generated messages from their tables: well-formed ones and odd ones."""

import struct
from random import Random

NUMBERS = {"i8": ">b", "i16": ">h", "u16": ">H", "i32": ">i", "i64": ">q", "f64": ">d"}
PLAIN_TEXTS = ("", "g", "topic-é中\U0001f600", 'a"b\\c\n\t', "x" * 40, "consumer", "/")
ODD_TEXTS = (b"\x1b", b"\x0b\x01", b"\xff", b"a\xed\xa0\x80b", b"\xc3", b"\x7f\xc2\x85", b"y" * 300)


def uvarint(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes([*encoded, value])


class Encoder:
    """Random messages; ``odd`` ones hold texts that are no plain UTF-8, nulls in wrong places, tags nobody knows."""

    def __init__(self, random: Random, odd: bool = False) -> None:
        self.random = random
        self.odd = odd

    def message(self, message, version: int) -> bytes:
        self.flexible = message.flexible is not None and version >= message.flexible
        self.version = version
        return self.struct(message.fields)

    def struct(self, fields) -> bytes:
        here = [each for each in fields if each.is_in(self.version)]
        encoded = b"".join(self.field(each) for each in here if each.tag is None)
        if not self.flexible:
            return encoded
        tagged = {each.tag: self.field(each) for each in here if each.tag is not None and self.random.random() < 0.6}
        if self.is_odd():
            tagged[self.random.choice((9, 15, 16, 200))] = b"?"
        for tag, data in sorted(tagged.items()):
            tagged[tag] = uvarint(tag) + uvarint(len(data)) + data
        return encoded + uvarint(len(tagged)) + b"".join(data for _tag, data in sorted(tagged.items()))

    def is_odd(self) -> bool:
        return self.odd and self.random.random() < 0.05

    def length(self, size: int, width: str) -> bytes:
        return uvarint(size + 1) if self.flexible else struct.pack(width, size)

    def field(self, each) -> bytes:
        is_null = self.random.random() < 0.2 if each.is_nullable else self.is_odd()
        if not each.is_array:
            return self.value(each, is_null)
        if is_null:
            return self.length(-1, ">i")
        count = self.random.choice((0, 1, 1, 2, 3))
        return self.length(count, ">i") + b"".join(self.value(each, False) for _ in range(count))

    def value(self, each, is_null: bool) -> bytes:
        random = self.random
        if each.kind == "struct":
            return self.nested(each, is_null)
        if each.kind in ("str", "bytes"):
            width = ">h" if each.kind == "str" else ">i"
            if is_null:
                return self.length(-1, width)
            data = random.choice(PLAIN_TEXTS).encode()
            if each.kind == "bytes":
                data = random.randbytes(random.choice((0, 1, 2, 17, 40)))
            elif self.is_odd():
                data = random.choice(ODD_TEXTS)
            return self.length(len(data), width) + data
        if each.kind == "uuid":
            return random.choice((bytes(16), random.randbytes(16), b"\xff" * 16))
        if each.kind == "bool":
            return bytes([random.choice((0, 1, 2))])
        if each.kind == "f64":
            return struct.pack(">d", random.choice((0.0, 1.5, -2e300)))
        size = struct.calcsize(NUMBERS[each.kind])
        default = each.default or 0
        return random.choice(
            (struct.pack(NUMBERS[each.kind], default), bytes(size), b"\xff" * size, random.randbytes(size))
        )

    def nested(self, each, is_null: bool) -> bytes:
        if not each.is_nullable or each.is_array:
            return self.struct(each.fields)
        mark = b"\x01" if each.tag is not None else b"\x00"
        if is_null:
            return b"\x00" if each.tag is not None else b"\xff"
        return mark + self.struct(each.fields)
