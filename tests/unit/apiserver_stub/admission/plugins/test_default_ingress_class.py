"""Tests for the DefaultIngressClass admission plugin."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.admission.listers import Lister
from apiserver_stub.admission.plugins.default_ingress_class import DefaultIngressClass
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.admission.conftest import make_call
from tests.unit.apiserver_stub.authz.conftest import Memory

DEFAULT = "ingressclass.kubernetes.io/is-default-class"
CLASSES = (("old", "true", "2026-01-01"), ("b", "true", "2026-01-02"), ("a", "true", "2026-01-02"))


async def chosen(*classes: tuple[str, str, str], obj: Any = None) -> Any:
    """Return the class of a new ingress; *classes* have a name, the default annotation and a time."""
    store: Any = Memory()
    for name, default, created in classes:
        metadata = {"name": name, "annotations": {DEFAULT: default}, "creationTimestamp": created}
        store.put("networking.k8s.io/ingressclasses", {"metadata": metadata})
    obj = obj if obj is not None else {"metadata": {}}
    await DefaultIngressClass(Lister(store), Identity()).admit(make_call(obj))
    return obj["spec"].get("ingressClassName")


@pytest.mark.parametrize(
    ("classes", "name"),
    [
        ([], None),
        ([("x", "false", "2026-01-01")], None),
        ([("x", "false", "2026-01-02"), ("y", "true", "2026-01-01")], "y"),
        (CLASSES, "a"),
    ],
    ids=["none", "no default", "one default", "latest default, then by name"],
)
@pytest.mark.row("admission.DefaultIngressClass")
async def test_class_of_a_new_ingress_is_the_latest_default(classes: Any, name: str | None) -> None:
    assert await chosen(*classes) == name


@pytest.mark.parametrize(
    ("obj", "name"),
    [
        ({"metadata": {}, "spec": {"ingressClassName": "own"}}, "own"),
        ({"metadata": {}, "spec": {"ingressClassName": ""}}, ""),
        ({"metadata": {"annotations": {"kubernetes.io/ingress.class": ""}}}, None),
        ({"metadata": {}, "spec": None}, "a"),
    ],
    ids=["own", "empty", "annotation", "no spec"],
)
async def test_ingress_with_a_class_is_not_changed(obj: Any, name: str | None) -> None:
    assert await chosen(*CLASSES, obj=obj) == name
