"""Tests for the texts of quantities; the expected ones are those of kube-apiserver 1.29."""

from __future__ import annotations

import pytest

from apiserver_stub.apimachinery.quantities import FORMAT_WRONG, NO_SUFFIX, InvalidQuantity, canonical, of_resource_list


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("128M ", "128M"),
        (" 1 ", "1"),
        ("1000m", "1"),
        ("1024Mi", "1Gi"),
        ("0.5", "500m"),
        ("1.5Gi", "1536Mi"),
        ("+1", "+1"),
        ("01", "01"),
        ("+123456789012345678", "+123456789012345678"),
        ("+1234567890123456789", "1234567890123456789"),
        ("1.", "1."),
        ("1E3", "1E3"),
        ("1e30", "1e30"),
        ("k", "0"),
        ("+", "0"),
        (".", "0"),
        ("0Mi", "0"),
        ("1.0000000001", "1000000001n"),
        ("9223372036854775808", "9223372036854775808"),
        ("123456789012345678901000000000", "123456789012345678901G"),
        ("99Ei", "9223372036854775807"),
        ("10000P", "10E"),
        ("100000000000000000000", "100E"),
        ("10000000000000000000000", "10000E"),
        ("9223372036854775810", "9223372036854775810"),
        ("+9223372036854776000", "9223372036854776k"),
        ("-92233720368547760000", "-92233720368547760k"),
        (f"1{'0' * 199}", f"1{'0' * 181}E"),
        ("1n", "1n"),
        ("0.000000001", "1n"),
        ("1e-9", "1e-9"),
        ("1e-12", "1e-9"),
        ("0.0000000001", "1n"),
    ],
)
def test_quantity_is_formatted_as_upstream(text: str, kept: str) -> None:
    assert canonical(text) == kept


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", FORMAT_WRONG),
        ("zz", FORMAT_WRONG),
        ("1 M", FORMAT_WRONG),
        ("1.2.3", FORMAT_WRONG),
        ("1\t", FORMAT_WRONG),
        ("1k5", NO_SUFFIX),
        ("--1", NO_SUFFIX),
        ("1i", NO_SUFFIX),
        ("1e" + "9" * 30, NO_SUFFIX),
    ],
)
def test_invalid_quantity_has_the_error_of_upstream(text: str, message: str) -> None:
    with pytest.raises(InvalidQuantity) as raised:
        canonical(text)

    assert str(raised.value) == message


@pytest.mark.parametrize(("text", "kept"), [("1n", "1m"), ("1.0001", "1001m"), ("+1", "+1"), ("2Gi", "2Gi")])
def test_resources_are_rounded_up_to_thousandths(text: str, kept: str) -> None:
    assert of_resource_list(text) == kept
