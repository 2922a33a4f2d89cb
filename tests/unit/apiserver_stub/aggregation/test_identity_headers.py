"""Tests for the identity headers of proxied requests; names cannot inject headers."""

from __future__ import annotations

import pytest

from apiserver_stub.aggregation.identity_headers import headers_of
from apiserver_stub.apimachinery.request import User


def test_each_part_of_the_identity_has_its_header() -> None:
    user = User("jane", groups=("a", "b"), extra={"example.com/scopes %": ("x", "y")})

    assert list(headers_of(user)) == [
        ("X-Remote-User", "jane"),
        ("X-Remote-Group", "a"),
        ("X-Remote-Group", "b"),
        ("X-Remote-Extra-example.com%2Fscopes%20%25", "x"),
        ("X-Remote-Extra-example.com%2Fscopes%20%25", "y"),
    ]


def test_uid_has_a_header_if_extension_servers_read_it() -> None:
    user = User("jane", "u1")

    assert list(headers_of(user, with_uid=True)) == [("X-Remote-User", "jane"), ("X-Remote-Uid", "u1")]
    assert list(headers_of(user)) == [("X-Remote-User", "jane")]


@pytest.mark.parametrize(
    "user",
    [User("a\r\nX-Remote-Group: system:masters"), User("a", groups=("b\n",)), User("a", extra={"k": ("\0",)})],
)
def test_name_with_a_line_break_is_rejected(user: User) -> None:
    with pytest.raises(ValueError, match="line break"):
        list(headers_of(user))
