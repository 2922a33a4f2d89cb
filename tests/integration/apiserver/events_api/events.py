"""Events and requests of the tests of the Events API."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.apiserver.conftest import Api

NEW, CORE = "/apis/events.k8s.io/v1", "/api/v1"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
WHEN = "2026-11-21T01:02:03.123456Z"


def event(name: str = "e", **members: Any) -> dict[str, Any]:
    """Return a valid event; *members* replace fields, and ``None`` removes them."""
    whole = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name},
        "eventTime": WHEN,
        "action": "Binding",
        "reason": "Scheduled",
        "reportingController": "example.com/scheduler",
        "reportingInstance": "scheduler-1",
        "type": "Normal",
        "note": "assigned",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
        **members,
    }
    return {key: value for key, value in whole.items() if value is not None}


def create(api: Api, events: str, *names: str, **members: Any) -> list[dict[str, Any]]:
    return [api.ok("POST", events, event(name, **members)) for name in names]


def names(listed: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


def causes(api: Api, events: str, body: dict[str, Any], method: str = "POST") -> list[tuple[str, str]]:
    """Return the causes of the rejection of *body*."""
    code, rejection = api.call(method, events, body)
    assert (code, rejection["reason"]) == (422, "Invalid"), rejection
    return [(cause["field"], cause["message"]) for cause in rejection["details"]["causes"]]


def verify_pretty(api: Api, method: str, path: str, body: Any = None, content_type: str = "application/json") -> None:
    """Check that responses are compact unless *pretty* or the user agent requests indentation."""
    forms = {}
    for query, agent in (("", ""), ("?pretty=true", ""), ("?pretty=false", "curl/8"), ("", "curl/8")):
        headers = {"User-Agent": agent} if agent else {}
        code, _, data = api.raw(method, path + query, body, content_type=content_type, headers=headers)
        assert code < 300, data
        forms[query, agent] = data
    assert forms["?pretty=true", ""].startswith(b'{\n  "kind"')
    assert forms["", "curl/8"].startswith(b'{\n  "kind"')
    assert forms["", ""].startswith(b'{"kind"')
    assert forms["?pretty=false", "curl/8"].startswith(b'{"kind"')


def row(*ids: str) -> Any:
    return pytest.mark.row(*(f"events.{id_}" for id_ in ids))
