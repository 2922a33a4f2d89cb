"""Tests for the parsing of resource versions."""

from __future__ import annotations

import pytest

from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.verbs.revisions import parse_version, requested_version, sets_version, too_large_version, version_of


@pytest.mark.parametrize(("text", "number"), [("", 0), ("0", 0), ("007", 7), ("18446744073709551615", (1 << 64) - 1)])
def test_64_bit_number_is_a_valid_version(text: str, number: int) -> None:
    assert parse_version(text) == number


@pytest.mark.parametrize("text", ["abc", "-1", "+1", " 1", "1_0", "1.0", "\u0661"])
def test_text_that_is_not_a_number_is_invalid_syntax(text: str) -> None:
    with pytest.raises(ApiError) as raised:
        version_of({"resourceVersion": text})

    assert raised.value.code == 500
    assert raised.value.message == f'strconv.ParseUint: parsing "{text}": invalid syntax'


@pytest.mark.parametrize("text", ["18446744073709551616", "9" * 5000])
def test_number_above_64_bits_is_out_of_range(text: str) -> None:
    with pytest.raises(ApiError, match=f'strconv.ParseUint: parsing "{text}": value out of range'):
        version_of({"resourceVersion": text})


@pytest.mark.parametrize(("text", "sets"), [("", False), ("0", False), ("00", False), ("abc", False), ("7", True)])
def test_only_a_valid_number_sets_the_version_of_a_new_object(text: str, sets: bool) -> None:
    assert sets_version({"resourceVersion": text}) is sets


@pytest.mark.parametrize(
    ("cached", "code", "start"), [(True, 500, "resourceVersion: "), (False, 400, "invalid resource version: resource")]
)
def test_invalid_version_of_a_read_depends_on_the_cache(cached: bool, code: int, start: str) -> None:
    with pytest.raises(ApiError) as raised:
        requested_version("abc", cached=cached)

    assert raised.value.code == code
    assert raised.value.message.startswith(start)


def test_only_the_cache_sets_retry_seconds_for_a_future_version() -> None:
    assert "retryAfterSeconds" in (too_large_version(9, 5, cached=True).details or {})
    assert "retryAfterSeconds" not in (too_large_version(9, 5, cached=False).details or {})
