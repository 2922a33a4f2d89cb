"""Tests for the integers that Go's strconv.ParseInt reads."""

from __future__ import annotations

import pytest

from nodeagent.base.gointeger import IntegerError, parse_digits, parse_int64


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("-1", -1), ("+5", 5), ("0" * 30 + "7", 7), (str(-(2**63)), -(2**63))]
)
def test_integer_is_parsed(text: str, number: int) -> None:
    assert parse_int64(text) == number


@pytest.mark.parametrize("text", ["", "x", "1_0", " 1", "1.0", "1e3", "٣"])
def test_other_text_is_invalid_syntax(text: str) -> None:
    with pytest.raises(IntegerError, match="invalid syntax"):
        parse_int64(text)


@pytest.mark.parametrize("text", [str(2**63), "9" * 5000])
def test_number_beyond_64_bits_is_out_of_range(text: str) -> None:
    with pytest.raises(IntegerError, match="value out of range"):
        parse_int64(text)


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("007", 7), ("9" * 18, 10**18 - 1)])
def test_digits_are_a_number(text, number):
    assert parse_digits(text) == number


@pytest.mark.parametrize("text", ["", "-1", "+1", " 1", "1_0", "٣", "9" * 19, "9" * 5000])
def test_other_text_and_long_numbers_are_none(text):
    assert parse_digits(text) is None
