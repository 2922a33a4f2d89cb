"""Tests for the labels of request metrics."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.apimachinery.request import Query, RequestInfo, parse_path
from apiserver_stub.pipeline.request_metrics import labels_of, method_of

PATCH = RequestInfo("patch", "/api/v1/namespaces/web/pods/a", "", "v1", "pods", "", "web", "a")
RESOURCE: Any = SimpleNamespace(group="", plural="pods", subresource=lambda name: None)


@pytest.mark.parametrize(
    ("method", "content_type", "verb"),
    [
        ("PATCH", "application/apply-patch+yaml", "APPLY"),
        ("PATCH", "application/merge-patch+json", "PATCH"),
        ("POST", "application/apply-patch+yaml", "POST"),
    ],
)
def test_apply_has_its_own_verb_label(method: str, content_type: str, verb: str) -> None:
    request: Any = SimpleNamespace(method=method, headers={"Content-Type": content_type})

    assert method_of(request) == verb


def test_apply_verb_is_used_for_local_and_aggregated_kinds() -> None:
    assert labels_of(PATCH, "APPLY", RESOURCE)[0] == "APPLY"
    assert labels_of(PATCH, "PATCH", RESOURCE)[0] == "PATCH"
    assert labels_of(PATCH, "APPLY", None)[0] == "APPLY"


def test_clients_cannot_create_labels() -> None:
    infos = [parse_path(method, f"/{'made-up' * number}/{number}", Query("")) for number, method in enumerate("ABCD")]
    infos += [parse_path("GET", f"/apis/group{number}/v1/kinds/name{number}", Query("")) for number in range(4)]

    found = {labels_of(info, method, None) for info in infos for method in ("ABC", "GETX", "PROPFIND")}

    assert found == {("other", "", "", "", path, "", "") for path in ("", "/apis")}
