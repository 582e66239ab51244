"""Keys, and formats of keys and values, on the command line."""

import re
from typing import Any

import click


class KeyBytes(click.ParamType):  # type: ignore[type-arg]
    """A key: its text, or ``base64:`` or ``hex:`` and the bytes. ``utf8:`` before a text that begins like that."""

    name = "KEY"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        if isinstance(value, bytes):
            return value
        form, colon, rest = str(value).partition(":")
        try:
            if colon and form == "base64":
                from binascii import a2b_base64

                return a2b_base64(rest, strict_mode=True)
            if colon and form == "hex":
                return bytes.fromhex(rest)
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)
        text = rest if colon and form == "utf8" else str(value)
        return text.encode("utf-8", "surrogateescape")


class ContentFormat(click.ParamType):  # type: ignore[type-arg]
    """The name of a format of keys or values, of a Kafka class, or ``module:callable``. Yields the name.

    The format is loaded at once, so that a wrong name is reported before any output.
    """

    name = "FORMAT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from kseg.decoders.values import FormatError, load

        try:
            load(str(value))
        except FormatError as error:
            self.fail(str(error), param, ctx)
        return str(value)


class BytesPattern(click.ParamType):  # type: ignore[type-arg]
    """A regular expression for bytes, given as UTF-8. Yields a compiled pattern."""

    name = "REGEX"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> "re.Pattern[bytes]":
        if isinstance(value, re.Pattern):
            return value
        try:
            return re.compile(str(value).encode("utf-8", "surrogateescape"))
        except re.error as error:
            self.fail(f"{value!r} is no regular expression: {error}", param, ctx)
