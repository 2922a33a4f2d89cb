"""Tests for the finalizers and the status of namespaces."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.kinds.namespaces import resources
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import kind_settings


def namespace(*finalizers: str, **status: Any) -> dict[str, Any]:
    spec = {"finalizers": list(finalizers)} if finalizers else {}
    return {"metadata": {"name": "n"}, "spec": spec, "status": status}


def strategy() -> Any:
    return resources(kind_settings(parse([])))[0].strategy


@pytest.mark.parametrize(
    ("subresource", "expected"),
    [
        ("", (["kubernetes"], {"phase": "Active"})),
        ("status", (["kubernetes"], {"phase": "Terminating"})),
        ("finalize", (["a/b"], {"phase": "Active"})),
    ],
)
def test_subresources_change_finalizers_and_status(subresource: str, expected: Any) -> None:
    new = namespace("a/b", phase="Terminating")

    strategy().prepare_update(new, namespace("kubernetes", phase="Active"), subresource)

    assert (new["spec"].get("finalizers"), new["status"]) == expected


def test_last_finalizer_is_removed() -> None:
    new = namespace()

    strategy().prepare_update(new, namespace("kubernetes"), "finalize")

    assert new["spec"] == {}
    assert strategy().validate_update(new, namespace("kubernetes"), "finalize") == []


@pytest.mark.parametrize(("finalizer", "is_valid"), [("a/b", True), ("kubernetes", True), ("x", False), ("", False)])
def test_finalizers_must_be_qualified(finalizer: str, *, is_valid: bool) -> None:
    assert (strategy().validate_update(namespace(finalizer), namespace(), "finalize") == []) is is_valid


@pytest.mark.parametrize(
    ("given", "expected"),
    [((), ["kubernetes"]), (("a/b",), ["a/b", "kubernetes"]), (("kubernetes", "a/b"), ["kubernetes", "a/b"])],
)
def test_new_namespace_has_the_finalizer_of_its_content(given: Any, expected: list[str]) -> None:
    new = namespace(*given)

    strategy().prepare_create(new)

    assert (new["spec"]["finalizers"], new["status"]) == (expected, {"phase": "Active"})
