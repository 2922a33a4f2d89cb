"""Tests for the controllers of custom kinds: names, readiness, serving and cleanup."""

from __future__ import annotations

from typing import Any

import pytest

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


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ({"shortNames": ["w"]}, ("ShortNamesConflict", '"w" is already in use')),
        ({"shortNames": ["w", "wd", "x"]}, ("ShortNamesConflict", '["w" is already in use, "wd" is already in use]')),
        ({"shortNames": ["x"], "singular": "w"}, ("SingularConflict", '"w" is already in use')),
        ({"kind": "WidgetList"}, ("KindConflict", '"WidgetList" is already in use')),
        ({"listKind": "Widget"}, ("ListKindConflict", '"Widget" is already in use')),
        ({"shortNames": ["x"]}, ("NoConflicts", "no conflicts found")),
        ({}, ("NoConflicts", "no conflicts found")),
    ],
)
async def test_names_of_other_kinds_of_the_group_are_in_use(
    store: MeteredStore, clock: FakeClock, names: dict[str, Any], expected: tuple[str, str]
) -> None:
    stored(store, shortNames=["w", "wd"])
    async with running(store, CustomKinds(store, Registry([]), DEFINITIONS, clock).run()):  # type: ignore[arg-type]
        await rest(store)
        stored(store, "gadgets", **{"singular": "gadget", "kind": "Gadget", "listKind": "GadgetList", **names})
        await rest(store)

    found = store.read(DEFINITIONS, "gadgets.example.com")
    (accepted,) = [item for item in found["status"]["conditions"] if item["type"] == "NamesAccepted"]
    assert (accepted["reason"], accepted["message"]) == expected
    has_short_names = "shortNames" in found["status"]["acceptedNames"]
    assert has_short_names == (expected[0] != "ShortNamesConflict" and "shortNames" in names)


async def test_own_short_names_remain_accepted(store: MeteredStore, clock: FakeClock) -> None:
    stored(store, shortNames=["w"], categories=["all"])
    async with running(store, CustomKinds(store, Registry([]), DEFINITIONS, clock).run()):  # type: ignore[arg-type]
        await rest(store)
        found = store.read(DEFINITIONS, "widgets.example.com")
        found["spec"]["names"] |= {"shortNames": ["w", "x"]}
        store.put(DEFINITIONS, found)
        await rest(store)

    accepted = store.read(DEFINITIONS, "widgets.example.com")["status"]["acceptedNames"]
    assert (accepted["shortNames"], accepted["categories"]) == (["w", "x"], ["all"])
    assert reason(store, "NamesAccepted") == "NoConflicts"


async def test_same_names_in_another_group_are_accepted(store: MeteredStore, clock: FakeClock) -> None:
    stored(store)
    async with running(store, CustomKinds(store, Registry([]), DEFINITIONS, clock).run()):  # type: ignore[arg-type]
        await rest(store)
        other = definition(group="example.org")
        other["metadata"] = {"name": "widgets.example.org", "uid": "o"}
        store.put(DEFINITIONS, {**other, "status": {"acceptedNames": {"plural": "", "kind": ""}}})
        await rest(store)

    found = condition(store.read(DEFINITIONS, "widgets.example.org"), "NamesAccepted")
    assert found["reason"] == "NoConflicts"


async def test_accepted_names_are_established_by_another_server(store: MeteredStore, clock: FakeClock) -> None:
    """A server that shares the store has accepted the names, but stopped before the next step."""
    stored(store)
    found = store.read(DEFINITIONS, "widgets.example.com")
    conditions = [{"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "False"}]
    found["status"] |= {"acceptedNames": found["spec"]["names"], "conditions": conditions}
    store.put(DEFINITIONS, found)
    async with running(store, CustomKinds(store, Registry([]), DEFINITIONS, clock).run()):  # type: ignore[arg-type]
        await rest(store)
    assert reason(store, "Established") == "InitialNamesAccepted"


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ("https://github.com/kubernetes/kubernetes/pull/1", ("True", "ApprovedAnnotation")),
        ("unapproved, experimental", ("False", "UnapprovedAnnotation")),
        ("", ("False", "MissingAnnotation")),
        ("x", ("False", "InvalidAnnotation")),
    ],
)
async def test_approval_of_protected_groups_is_reported(
    store: MeteredStore, clock: FakeClock, annotation: str, expected: tuple[str, str]
) -> None:
    new = definition(group="example.k8s.io")
    annotations = {"api-approved.kubernetes.io": annotation} if annotation else {}
    new["metadata"] = {"name": "widgets.example.com", "uid": "w", "annotations": annotations}
    store.put(DEFINITIONS, {**new, "status": {}})

    async with running(store, CustomKinds(store, Registry([]), DEFINITIONS, clock).run()):  # type: ignore[arg-type]
        await rest(store)

    found = condition(store.read(DEFINITIONS, "widgets.example.com"), "KubernetesAPIApprovalPolicyConformant")
    assert (found["status"], found["reason"]) == expected


async def test_kinds_deleted_before_a_reset_are_not_served(store: MeteredStore, clock: FakeClock) -> None:
    registry = Registry([])
    stored(store)
    kinds = CustomKinds(store, registry, DEFINITIONS, clock)  # type: ignore[arg-type]
    stored(store, "gadgets", singular="gadget", kind="Gadget", listKind="GadgetList")
    async with running(store, kinds.run()):
        await rest(store)
    store.remove(DEFINITIONS, "widgets.example.com")

    kinds.reset()

    served = [registry.find("example.com", "v1", plural) is not None for plural in ("widgets", "gadgets")]
    assert served == [False, True]


@pytest.mark.parametrize("metadata", [{"finalizers": ["example.com/hold"]}, {"finalizers": None}])
async def test_definition_without_the_finalizer_is_not_changed(
    store: MeteredStore, clock: FakeClock, metadata: dict[str, Any]
) -> None:
    stored(store)
    found = store.read(DEFINITIONS, "widgets.example.com")
    found["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", **metadata}
    store.put(DEFINITIONS, found)
    writes = store.writes

    async with running(store, CustomResourceCleanup(context(store), Registry([]), DEFINITIONS, FINALIZER, clock).run()):
        await rest(store)

    assert store.writes == writes


@pytest.mark.parametrize("collection", [WIDGETS, DEFINITIONS])
async def test_objects_that_others_delete_during_the_cleanup_are_no_failure(
    store: MeteredStore, clock: FakeClock, caplog: pytest.LogCaptureFixture, collection: str
) -> None:
    registry = Registry([])
    stored(store)
    store.put(WIDGETS, {"metadata": {"name": "w", "namespace": "default", "uid": "w"}})
    kinds = CustomKinds(store, registry, DEFINITIONS, clock)  # type: ignore[arg-type]

    def delete(name: str, key: str) -> None:
        if name == collection and store.read(name, key) is not None:
            store.remove(name, key)

    async with running(store, kinds.run()):
        await rest(store)
        found = store.read(DEFINITIONS, "widgets.example.com")
        found["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [FINALIZER]}
        store.put(DEFINITIONS, found)
        store.before_update = delete
        cleanup = CustomResourceCleanup(context(store), registry, DEFINITIONS, FINALIZER, clock)
        async with running(store, cleanup.run()):
            await rest(store)

    assert store.read(DEFINITIONS, "widgets.example.com") is None
    assert caplog.messages == []
