"""Float.toString and Double.toString of JDK 19 and later: examples of their documentation and of JDK-4511638."""

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.formats.java_text import double_text, float_text

DOUBLES = {
    0.0: "0.0",
    1.0: "1.0",
    -1.0: "-1.0",
    0.5: "0.5",
    0.1: "0.1",
    0.001: "0.001",
    0.00099: "9.9E-4",
    -123.456: "-123.456",
    12345678.9: "1.23456789E7",
    9999999.0: "9999999.0",
    10000000.0: "1.0E7",
    123456.789: "123456.789",
    100.0: "100.0",
    2e23: "2.0E23",
    1e23: "1.0E23",
    8.41e21: "8.41E21",
    2.0e-3: "0.002",
    5e-324: "4.9E-324",
    9.9e-324: "9.9E-324",
    1.7976931348623157e308: "1.7976931348623157E308",
    2.2250738585072014e-308: "2.2250738585072014E-308",
    math.inf: "Infinity",
    -math.inf: "-Infinity",
}
FLOATS = {
    0x00000001: "1.4E-45",
    0x00000002: "2.8E-45",
    0x00000003: "4.2E-45",
    0x00800000: "1.1754944E-38",
    0x7F7FFFFF: "3.4028235E38",
    0x3F800000: "1.0",
    0x3DCCCCCD: "0.1",
    0x4B189680: "1.0E7",
    0x4B18967F: "9999999.0",
    0x3A83126F: "0.001",
    0x80000000: "-0.0",
    0x7F800000: "Infinity",
    0x7FC00000: "NaN",
    0xC9EA983E: "-1921799.8",
    0x0F800000: "1.2621775E-29",
    0x4C000004: "3.355445E7",
}


@pytest.mark.parametrize("number, text", DOUBLES.items())
def test_doubles(number: float, text: str) -> None:
    assert double_text(number) == text


def test_what_is_no_number() -> None:
    assert double_text(math.nan) == "NaN"
    assert double_text(-0.0) == "-0.0"


@pytest.mark.parametrize("bits, text", FLOATS.items())
def test_floats(bits: int, text: str) -> None:
    assert float_text(struct.unpack(">f", struct.pack(">I", bits))[0]) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_reads_back(number: float) -> None:
    text = double_text(number)
    assert struct.pack(">d", float(text)) == struct.pack(">d", number)
    assert len(text.split("E")[0].strip("-").replace(".", "").strip("0")) <= 17


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float_reads_back_and_no_shorter_text_does(number: float) -> None:
    text = float_text(number)
    packed = struct.pack(">f", number)
    assert struct.pack(">f", float(text)) == packed
    digits = text.split("E")[0].strip("-").replace(".", "").strip("0")
    if len(digits) > 2:
        shorter = f"{number:.{len(digits) - 2}e}"
        assert abs(float(shorter)) > 3.4028235e38 or struct.pack(">f", float(shorter)) != packed
