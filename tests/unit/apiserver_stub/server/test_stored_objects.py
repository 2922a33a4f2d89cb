"""Tests for objects in the form in which a write would have stored them."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.kinds.registry import Resource
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry
from apiserver_stub.server.stored_objects import StoredObjects


def completed(obj: dict[str, Any], release: str = "1.29") -> dict[str, Any]:
    options = parse([f"--compatibility-version={release}"])
    StoredObjects(options, build_registry(options)).complete(obj)
    return obj


def test_defaults_are_added() -> None:
    found = completed({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}})

    assert found["type"] == "Opaque"


@pytest.mark.parametrize("kind", ["Unknown", "SubjectAccessReview"])
def test_kind_that_is_not_stored_is_unchanged(kind: str) -> None:
    obj = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "s"}}

    assert completed(dict(obj)) == obj


@pytest.mark.parametrize(("release", "shown"), [("1.33", True), ("1.34", False)])
def test_null_times_are_omitted_in_later_releases(release: str, shown: bool) -> None:
    template = {"metadata": {"creationTimestamp": None}, "spec": {"containers": []}}
    spec = {"selector": {}, "template": template}
    found = completed({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}, release)

    assert ("creationTimestamp" in found["spec"]["template"]["metadata"]) is shown


def test_objects_of_a_kind_without_a_schema_are_unchanged() -> None:
    obj = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"a": 1}}
    stored = StoredObjects(parse([]), [Resource("example.com", "v1", "Widget", "widgets")])

    completed = dict(obj)
    stored.complete(completed)

    assert completed == obj
