"""Tests for audit events: source addresses and lines of text."""

from __future__ import annotations

import re

import pytest

from apiserver_stub.audit.event import Event, ObjectReference, ResponseStatus, UserInfo, legacy_line, source_ips


@pytest.mark.parametrize(
    ("headers", "remote", "expected"),
    [
        ({}, "192.0.2.1", ["192.0.2.1"]),
        ({}, None, []),
        ({"X-Forwarded-For": "10.0.0.1, x, 10.0.0.2"}, "192.0.2.1", ["10.0.0.1", "10.0.0.2", "192.0.2.1"]),
        ({"X-Forwarded-For": "10.0.0.1, 192.0.2.1"}, "192.0.2.1", ["10.0.0.1", "192.0.2.1"]),
        ({"X-Forwarded-For": "192.0.2.1, 10.0.0.1"}, "192.0.2.1", ["192.0.2.1", "10.0.0.1", "192.0.2.1"]),
        ({"X-Real-Ip": "10.0.0.3"}, "192.0.2.1", ["10.0.0.3", "192.0.2.1"]),
        ({"X-Real-Ip": "x"}, "192.0.2.1", ["192.0.2.1"]),
        ({"X-Forwarded-For": "10.0.0.1", "X-Real-Ip": "10.0.0.1"}, None, ["10.0.0.1"]),
        ({"X-Real-Ip": "192.0.2.1"}, "192.0.2.1", ["192.0.2.1"]),
    ],
)
def test_source_addresses_are_those_of_proxies_and_the_peer(
    headers: dict[str, str], remote: str | None, expected: list[str]
) -> None:
    assert source_ips(headers, remote) == expected


def line(**fields: object) -> dict[str, str]:
    """Return the fields of the line of an event."""
    plain: dict[str, object] = {
        "kind": "Event", "api_version": "audit.k8s.io/v1", "level": "Metadata", "audit_id": "a", "verb": "get",
        "stage": "ResponseComplete", "request_uri": "/version", "user": UserInfo(),
        "request_received_timestamp": "2024-01-01T00:00:00.120000Z", "stage_timestamp": "2024-01-01T00:00:00.120000Z",
    }  # fmt: skip
    text = legacy_line(Event(**{**plain, **fields})).decode()  # type: ignore[arg-type]
    assert text.startswith("2024-01-01T00:00:00.12Z AUDIT: ")
    return dict(re.findall(r'([a-z-]+)="([^"]*)"', text))


def test_line_of_an_unknown_user_has_placeholders() -> None:
    found = line()

    assert {found[name] for name in ("user", "groups", "namespace")} == {"<none>"}
    assert (found["as"], found["asgroups"]) == ("<self>", "<lookup>")
    assert (found["ip"], found["response"]) == ("<unknown>", "<deferred>")


def test_line_has_user_impersonated_user_object_and_response() -> None:
    found = line(
        user=UserInfo(username="u"),
        impersonated_user=UserInfo(username="other"),
        source_ips=["192.0.2.1"],
        object_ref=ObjectReference(resource="pods", namespace="a"),
        response_status=ResponseStatus(code=404),
    )

    assert (found["user"], found["groups"], found["as"], found["asgroups"]) == ("u", "<none>", "other", "<lookup>")
    assert (found["namespace"], found["ip"], found["response"]) == ("a", "192.0.2.1", "404")


def test_groups_are_listed_with_quotes() -> None:
    text = legacy_line(
        Event(
            kind="Event",
            api_version="v",
            level="Metadata",
            audit_id="a",
            stage="s",
            request_uri="/",
            verb="get",
            user=UserInfo(username="u", groups=["a", "b"]),
            impersonated_user=UserInfo(username="o", groups=["c"]),
            request_received_timestamp="2024-01-01T00:00:00Z",
            stage_timestamp="2024-01-01T00:00:00Z",
        )
    ).decode()

    assert 'groups="\\"a\\",\\"b\\""' in text
    assert 'asgroups="\\"c\\""' in text
