"""Tests for the rules of custom kinds in each release, and for definitions that are not served."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.options import parse
from apiserver_stub.server.custom_kinds import build_custom_kinds
from apiserver_stub.server.kinds import build_registry
from tests.unit.apiserver_stub.authz.conftest import Memory
from tests.unit.apiserver_stub.kinds.test_custom_resources import established, version, widget


def built(release: str, *arguments: str) -> tuple[Any, Any]:
    """Return the controller of custom kinds and the resource of a stored definition, if they are served."""
    options, store = parse([f"--compatibility-version={release}", *arguments]), Memory()
    registry: Any = build_registry(options)
    served = version(subresources={"status": {}})
    status = {"text": {"type": "string"}, "name": {"type": "string", "format": "k8s-short-name"}}
    served["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"] = status
    store.put("apiextensions.k8s.io/customresourcedefinitions", established(served))
    webhooks: Any = SimpleNamespace(post=None)
    found = build_custom_kinds(store, registry, options, webhooks)  # type: ignore[arg-type]
    return found, registry.find("example.com", "v1", "widgets")


@pytest.mark.parametrize(
    ("release", "fields"),
    [
        ("1.30", ["text"]),
        ("1.31", ["status.text"]),
        ("1.33", ["status.text"]),
        ("1.34", ["status.text", "status.name"]),
    ],
)
def test_status_of_custom_kinds_is_validated_as_in_the_release(release: str, fields: list[str]) -> None:
    _, widgets = built(release)

    causes = widgets.strategy.validate_update(widget(status={"text": 1, "name": "A"}), widget(), "status")

    assert [cause.field for cause in causes] == fields


def test_custom_kinds_need_definitions() -> None:
    controller, widgets = built("1.31", "--runtime-config=apiextensions.k8s.io/v1=false")

    assert (controller, widgets) == (None, None)
