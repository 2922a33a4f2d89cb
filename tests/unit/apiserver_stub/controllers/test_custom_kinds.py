"""Tests for the controllers of custom kinds: names, readiness, serving and cleanup."""

from __future__ import annotations

from typing import Any

from apiserver_stub.controllers.custom_kinds import CustomKinds
from apiserver_stub.controllers.custom_resource_cleanup import CustomResourceCleanup
from apiserver_stub.kinds.custom_resource_definitions import condition
from apiserver_stub.kinds.registry import Registry
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, context, rest, running, store
from tests.unit.apiserver_stub.kinds.test_custom_resources import NAMES, definition

__all__ = ["store"]

DEFINITIONS, WIDGETS = "apiextensions.k8s.io/customresourcedefinitions", "example.com/widgets"
FINALIZER = "customresourcecleanup.apiextensions.k8s.io"


def stored(store: MeteredStore, plural: str = "widgets", **names: Any) -> None:
    new = definition(names={**NAMES, "plural": plural, **names})
    new["metadata"] = {"name": f"{plural}.example.com", "uid": plural}
    store.put(DEFINITIONS, {**new, "status": {"acceptedNames": {"plural": "", "kind": ""}, "storedVersions": ["v1"]}})


def reason(store: MeteredStore, type_: str, plural: str = "widgets") -> str:
    found: str = condition(store.read(DEFINITIONS, f"{plural}.example.com"), type_).get("reason", "")
    return found


async def test_kind_is_served_and_established(store: MeteredStore, clock: FakeClock) -> None:
    registry = Registry([])
    stored(store)

    async with running(store, CustomKinds(store, registry, DEFINITIONS, clock).run()):  # type: ignore[arg-type]
        await rest(store)

    assert registry.find("example.com", "v1", "widgets") is not None
    found = store.read(DEFINITIONS, "widgets.example.com")
    assert found["status"]["acceptedNames"] == NAMES
    assert [(item["type"], item["status"], item["reason"]) for item in found["status"]["conditions"]] == [
        ("NamesAccepted", "True", "NoConflicts"),
        ("Established", "True", "InitialNamesAccepted"),
    ]


async def test_conflicting_names_are_accepted_once_they_are_free(store: MeteredStore, clock: FakeClock) -> None:
    registry = Registry([])
    stored(store)

    async with running(store, CustomKinds(store, registry, DEFINITIONS, clock).run()):  # type: ignore[arg-type]
        await rest(store)
        stored(store, "gadgets", singular="gadget", listKind="GadgetList")
        await rest(store)

        assert reason(store, "NamesAccepted", "gadgets") == "KindConflict"
        assert reason(store, "Established", "gadgets") == "NotAccepted"
        message = condition(store.read(DEFINITIONS, "gadgets.example.com"), "NamesAccepted")["message"]
        assert message == '"Widget" is already in use'
        assert registry.find("example.com", "v1", "gadgets") is None

        store.remove(DEFINITIONS, "widgets.example.com")
        await rest(store)

    assert reason(store, "Established", "gadgets") == "InitialNamesAccepted"
    assert registry.find("example.com", "v1", "widgets") is None
    assert registry.find("example.com", "v1", "gadgets") is not None


async def test_stored_kinds_are_served_at_startup(store: MeteredStore, clock: FakeClock) -> None:
    registry = Registry([])
    stored(store)
    async with running(store, CustomKinds(store, Registry([]), DEFINITIONS, clock).run()):  # type: ignore[arg-type]
        await rest(store)

    CustomKinds(store, registry, DEFINITIONS, clock).load()  # type: ignore[arg-type]

    assert registry.find("example.com", "v1", "widgets") is not None


async def test_definition_is_removed_after_its_resources(store: MeteredStore, clock: FakeClock) -> None:
    registry = Registry([])
    stored(store)
    kinds = CustomKinds(store, registry, DEFINITIONS, clock)  # type: ignore[arg-type]
    cleanup = CustomResourceCleanup(context(store), registry, DEFINITIONS, FINALIZER, clock)
    async with running(store, kinds.run(), cleanup.run()):
        await rest(store)
        for number in range(300):
            store.put(WIDGETS, {"metadata": {"name": f"w{number}", "namespace": "default", "uid": str(number)}})
        held = {"name": "held", "namespace": "default", "uid": "held", "finalizers": ["example.com/hold"]}
        store.put(WIDGETS, {"metadata": held})
        found = store.read(DEFINITIONS, "widgets.example.com")
        found["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [FINALIZER]}
        store.put(DEFINITIONS, found)
        await rest(store)

        assert [record.key for record in store.collection(WIDGETS).select()] == ["default/held"]
        assert reason(store, "Terminating") == "InstanceDeletionInProgress"

        await clock.advance(120)
        await rest(store)
        assert reason(store, "Terminating") == "InstanceDeletionCheck"

        store.remove(WIDGETS, "default/held")
        await clock.advance(5)
        await rest(store)

    assert store.read(DEFINITIONS, "widgets.example.com") is None
    assert registry.find("example.com", "v1", "widgets") is None


async def test_definition_that_was_never_established_is_removed(store: MeteredStore, clock: FakeClock) -> None:
    stored(store)
    found = store.read(DEFINITIONS, "widgets.example.com")
    found["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [FINALIZER, "example.com/hold"]}
    store.put(DEFINITIONS, found)

    async with running(store, CustomResourceCleanup(context(store), Registry([]), DEFINITIONS, FINALIZER, clock).run()):
        await rest(store)

    assert reason(store, "Terminating") == "NeverEstablished"
    assert store.read(DEFINITIONS, "widgets.example.com")["metadata"]["finalizers"] == ["example.com/hold"]
