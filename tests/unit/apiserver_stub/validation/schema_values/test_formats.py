"""Tests for the limits of formats of texts."""

from __future__ import annotations

import pytest

from apiserver_stub.validation.schema_values.formats import format_check, is_known, is_object_name


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("cidr", "0.0.0.0/0", True),
        ("cidr", "10.1.2.3/8", True),
        ("cidr", "fd00::/64", True),
        ("cidr", "10.0.0.0/33", False),
        ("cidr", "10.0.0.0/", False),
        ("cidr", "10.0.0.0/255.0.0.0", False),
        ("cidr", "/8", False),
        ("ipv4", "10.0.0.1", True),
        ("ipv4", "10.0.0", False),
        ("ipv6", "::1", True),
        ("ipv6", "fe80::1%eth0", False),
        ("mac", "00-00-5e-00-53-01", True),
        ("mac", "0000.5e00.5301", True),
        ("mac", "02:00:5e:10:00:00:00:01", True),
        ("mac", ":".join(["00"] * 20), True),
        ("mac", ":".join(["00"] * 7), False),
        ("mac", "00:00-5e:00:53:01", False),
        ("mac", "0000.5e00", False),
        ("hostname", "a", True),
        ("hostname", "a-b.example", True),
        ("hostname", "-a.example", False),
        ("hostname", "a.b", False),
        ("hostname", "a.1e", False),
        ("hostname", f"{'a' * 63}.example", True),
        ("hostname", f"{'a' * 64}.example", False),
        ("hostname", ".".join(["a" * 49] * 5 + ["abcde"]), True),
        ("hostname", ".".join(["a" * 49] * 5 + ["abcdef"]), False),
        ("email", "A <a@b.example>", True),
        ("email", "a b", False),
        ("email", "(" * 5000 + "a@b", False),
        ("isbn10", "0-321-75104-3", True),
        ("isbn10", "03217510430", False),
        ("isbn13", "9783161484100", True),
        ("isbn13", "97831614841000", False),
        ("creditcard", "378282246310005", True),
        ("creditcard", "378282246310006", False),
        ("creditcard", "1234", False),
        ("duration", "3 days", True),
        ("duration", "2w", True),
        ("duration", "1 weeks", True),
        ("duration", "1 fortnight", False),
        ("duration", "0", True),
        ("duration", "", False),
        ("date", "2024-2-1", False),
        ("date", "20240201", False),
        ("date", "2024-W05-1", False),
        ("date-time", "2024-02-30T00:00:00Z", False),
        ("date-time", "2024-02-01T23:59:59Z", True),
        ("date-time", "2024-02-01T24:00:00Z", False),
        ("date-time", "2024-02-01T00:60:00Z", False),
        ("date-time", "2024-02-01T00:00:60Z", False),
        ("date-time", "2024-02-01T00:00:00", False),
        ("date-time", "2024-02-01 00:00:00Z", False),
        ("bsonobjectid", "0123456789abcdef01234567", True),
        ("bsonobjectid", "0123456789abcdef0123456", False),
        ("password", "", True),
        ("uuid", "7C2BC8A1-7A3C-4F1B-9D2E-0A1B2C3D4E5F", True),
        ("uuid3", "7c2bc8a17a3c3f1b9d2e0a1b2c3d4e5f", True),
        ("uuid5", "7c2bc8a1-7a3c-5f1b-cd2e-0a1b2c3d4e5f", False),
    ],
)
def test_limits_of_a_format(name: str, text: str, *, expected: bool) -> None:
    check = format_check(name)

    assert check is not None
    assert check(text) is expected


@pytest.mark.parametrize(
    ("name", "known", "names_objects"),
    [("date-time", True, False), ("datetime", True, False), ("k8s-short-name", True, True), ("int64", False, False)],
)
def test_formats_are_known_by_name(name: str, *, known: bool, names_objects: bool) -> None:
    assert (is_known(name), is_object_name(name)) == (known, names_objects)
    assert (format_check(name) is not None) is known
