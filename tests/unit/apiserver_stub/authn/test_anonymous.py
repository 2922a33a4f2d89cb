"""Tests for the requests that have the anonymous user."""

from __future__ import annotations

import pytest

from apiserver_stub.authn.anonymous import AnonymousAccess


@pytest.mark.parametrize(
    ("access", "permitted"),
    [
        (AnonymousAccess(), ["/livez", "/api"]),
        (AnonymousAccess(paths=frozenset({"/livez"})), ["/livez"]),
        (AnonymousAccess(enabled=False), []),
        (AnonymousAccess(enabled=False, paths=frozenset({"/livez"})), []),
    ],
)
def test_anonymous_requests_are_permitted_for_all_or_some_paths(access: AnonymousAccess, permitted: list[str]) -> None:
    assert [path for path in ("/livez", "/api") if access.permits(path)] == permitted
