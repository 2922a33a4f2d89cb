"""Tests for the DefaultStorageClass admission plugin."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.admission.listers import Lister
from apiserver_stub.admission.plugins.default_storage_class import DefaultStorageClass
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.admission.conftest import make_call
from tests.unit.apiserver_stub.authz.conftest import Memory

DEFAULT, BETA = (f"{prefix}.kubernetes.io/is-default-class" for prefix in ("storageclass", "storageclass.beta"))
CLASSES = (
    ("old", {DEFAULT: "true"}, "2026-01-01"),
    ("b", {DEFAULT: "true"}, "2026-01-02"),
    ("a", {BETA: "true"}, "2026-01-02"),
    ("other", {DEFAULT: "false"}, "2026-01-03"),
)


async def chosen(*classes: tuple[str, Any, str], obj: Any = None) -> Any:
    """Return the class of a new claim; *classes* have a name, annotations and a time."""
    store: Any = Memory()
    for name, marks, created in classes:
        metadata = {"name": name, "annotations": marks, "creationTimestamp": created}
        store.put("storage.k8s.io/storageclasses", {"metadata": metadata})
    obj = obj if obj is not None else {"metadata": {}}
    await DefaultStorageClass(Lister(store), Identity()).admit(make_call(obj))
    return obj["spec"].get("storageClassName")


@pytest.mark.parametrize(("count", "name"), [(0, None), (1, "old"), (2, "b"), (3, "a"), (4, "a")])
@pytest.mark.row("admission.DefaultStorageClass")
async def test_class_of_a_new_claim_is_the_latest_default(count: int, name: str | None) -> None:
    assert await chosen(*CLASSES[:count]) == name


@pytest.mark.parametrize(
    ("obj", "name"),
    [
        ({"metadata": {}, "spec": {"storageClassName": "own"}}, "own"),
        ({"metadata": {}, "spec": {"storageClassName": ""}}, ""),
        ({"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": ""}}}, None),
        ({"metadata": {}, "spec": None}, "a"),
    ],
    ids=["own", "empty", "annotation", "no spec"],
)
async def test_claim_with_a_class_is_not_changed(obj: Any, name: str | None) -> None:
    assert await chosen(*CLASSES, obj=obj) == name
