"""Tests for the base64 decoder; the expected results are those of Go's encoding/base64."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeagent.base.gobase64 import CorruptInput, canonical, decode, decode_url


@pytest.mark.parametrize("text", ["VmFs", "Vm\nFs", "VmFs\n", "Vm\r\nFs", "\nV\nm\nF\ns"])
def test_line_breaks_are_ignored(text: str) -> None:
    assert decode(text) == b"Val"
    assert canonical(text) == "VmFs"


@pytest.mark.parametrize(
    ("text", "offset"),
    [("VmFs=", 4), ("Vg", 0), ("Vg=", 3), ("V", 0), ("====", 0), ("$", 0), ("VmF$", 3), ("Vg==Vg==", 4), ("Vm Fs", 2)],
)
def test_error_names_the_offset(text: str, offset: int) -> None:
    with pytest.raises(CorruptInput) as raised:
        decode(text)

    assert str(raised.value) == f"illegal base64 data at input byte {offset}"


def test_bits_after_the_last_byte_are_dropped() -> None:
    assert canonical("Vn==") == "Vg=="


def test_url_alphabet_has_no_padding() -> None:
    assert decode_url("-_8") == b"\xfb\xff"
    with pytest.raises(CorruptInput, match="byte 4"):
        decode_url("VmFs=")


@given(st.binary(max_size=50))
def test_encoded_bytes_are_canonical(data: bytes) -> None:
    text = base64.b64encode(data).decode()

    assert canonical(text) == text
    assert decode(text) == data


def test_only_canonical_text_is_returned_unchanged() -> None:
    assert canonical("YWJj") == "YWJj"
    assert canonical("YWI=") == "YWI="
    assert canonical("YW\nJj") == "YWJj"
    assert canonical("") == ""
    for text in ("YWJ", "YW", "YWJjY", "YWI"):
        with pytest.raises(CorruptInput):
            canonical(text)
