"""Tests for quantities: exact amounts, comparison, canonical text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeagent.base.quantity import Format, Quantity, parse_quantity, size_text

MAX = 2**63 - 1


@pytest.mark.parametrize(
    ("text", "canonical", "value", "milli"),
    [
        ("0", "0", 0, 0),
        ("100m", "100m", 1, 100),
        ("1500m", "1500m", 2, 1500),
        ("2000m", "2", 2, 2000),
        ("1.5Gi", "1536Mi", 1536 * 1024**2, 1536 * 1024**2 * 1000),
        ("1.5Ki", "1536", 1536, 1536000),
        ("1Ki", "1Ki", 1024, 1024000),
        ("1023.5Ki", "1048064", 1048064, 1048064000),
        ("4Ei", "4Ei", 4 * 1024**6, 4 * 1024**6 * 1000),
        ("0.5Ki", "512", 512, 512000),
        ("0.1Ki", "102400m", 103, 102400),
        ("1e3", "1e3", 1000, 10**6),
        ("1E3", "1e3", 1000, 10**6),
        ("12E-1", "1200e-3", 2, 1200),
        ("1E", "1E", 10**18, 10**21),
        ("10M", "10M", 10**7, 10**10),
        ("1000", "1k", 1000, 10**6),
        ("+3", "3", 3, 3000),
        ("-1.5", "-1500m", -2, -1500),
        (".5", "500m", 1, 500),
        ("5.", "5", 5, 5000),
        ("1n", "1n", 1, 1),
        ("0.1n", "1n", 1, 1),
        ("3u", "3u", 1, 1),
        ("1000Ki", "1000Ki", 1024000, 1024000000),
        ("1024Ki", "1Mi", 1024**2, 1024**2 * 1000),
    ],
)
def test_every_suffix_is_parsed_and_formatted(text, canonical, value, milli):
    quantity = parse_quantity(text)

    assert str(quantity) == canonical
    assert quantity.value() == value
    assert quantity.milli_value() == milli


@pytest.mark.parametrize("text", ["", ".", "m", "1 Gi", "1gi", "1KI", "1K", "1kk", "--1", "1e1.5", "1ee3", "９", "1\n"])
def test_invalid_quantity_is_rejected(text):
    with pytest.raises(ValueError, match="is not a quantity"):
        parse_quantity(text)


@pytest.mark.parametrize("text", ["1e999999", "9223372036854775807Ei", "99999999999999999999999"])
def test_excessive_amount_becomes_the_maximum(text):
    assert parse_quantity(text).value() == MAX
    assert parse_quantity(f"-{text}").value() == -MAX


def test_tiny_amount_is_rounded_up_to_a_billionth():
    assert parse_quantity("1e-999999").nanos == 1
    assert parse_quantity("0e999999").nanos == 0


@given(st.integers(-MAX * 10**9, MAX * 10**9), st.sampled_from(Format))
def test_text_parses_to_the_same_amount(nanos, style):
    quantity = Quantity(nanos=nanos, format=style)

    assert parse_quantity(str(quantity)) == quantity


@given(st.from_regex(r"[+-]?[0-9]{1,6}(\.[0-9]{0,4})?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?", fullmatch=True))
def test_canonical_text_is_stable(text):
    canonical = str(parse_quantity(text))

    assert str(parse_quantity(canonical)) == canonical


@given(st.integers(-(10**15), 10**15), st.integers(-(10**15), 10**15))
def test_arithmetic_is_exact(first, second):
    one, two = Quantity(nanos=first), Quantity(nanos=second)

    assert (one + two).nanos == first + second
    assert (one - two).nanos == first - second
    assert (one < two) == (first < second)
    assert (-one).nanos == -first


def test_comparison_ignores_the_suffix():
    assert parse_quantity("1Ki") == parse_quantity("1024") == parse_quantity("1.024k")
    assert len({parse_quantity("1"), parse_quantity("1000m")}) == 1
    assert parse_quantity("1") != "1"
    assert not Quantity()


def test_sum_keeps_the_suffix_family_of_the_nonzero_operand():
    assert str(Quantity() + parse_quantity("1Gi")) == "1Gi"
    assert str(parse_quantity("1Gi") * 3) == "3Gi"


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        ((1 << 20) - 1, "1024 KiB"),
        (1 << 20, "1 MiB"),
        (45_200_000, "43.11 MiB"),
        (1 << 30, "1 GiB"),
        (1 << 40, "1 TiB"),
        (12 << 40, "12 TiB"),
        (1 << 50, "1 PiB"),
    ],
)
def test_size_has_at_most_four_digits(size, text):
    assert size_text(size) == text


def test_text_has_at_most_200_characters():
    assert parse_quantity("0" * 200).nanos == 0
    with pytest.raises(ValueError, match="is not a quantity"):
        parse_quantity("0" * 201)
