"""Tests for the objects of flow control: maintenance of the default ones, and configuration by all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from apiserver_stub.apimachinery.request import Query, User, parse_path
from apiserver_stub.controllers.flow_control_config import FlowControlConfig
from apiserver_stub.controllers.flow_control_objects import FlowControlNames, FlowControlObjects
from apiserver_stub.flowcontrol.priority_and_fairness import PriorityAndFairness
from nodeagent.base.identity import Identity
from nodeagent.base.release import Release
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.authz.conftest import Memory
from tests.unit.apiserver_stub.flowcontrol.default_configuration import default_levels, default_schemas

NAMES = FlowControlNames.of(Identity())
ANNOTATION = "apf.kubernetes.io/autoupdate-spec"
ALICE = User("alice", groups=("system:authenticated",))
PODS = parse_path("GET", "/api/v1/namespaces/web/pods", Query(""))


@pytest.fixture
def store() -> Any:
    return Memory()


@pytest.fixture
def fairness() -> PriorityAndFairness:
    return PriorityAndFairness(600, 15, default_levels(), default_schemas())


def change(store: Any, collection: str, name: str, edit: Callable[[Any], object], **annotations: str) -> None:
    obj = store.read(collection, name)
    edit(obj["spec"])
    obj["metadata"]["generation"] = 2
    obj["metadata"]["annotations"] = annotations
    store.put(collection, obj)


@asynccontextmanager
async def running(store: Any, fairness: PriorityAndFairness, clock: FakeClock) -> AsyncIterator[None]:
    config = FlowControlConfig(store, fairness, Identity(), clock)
    await config.start()
    task = asyncio.ensure_future(config.run())
    await clock.advance(0)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_release_1_36_has_no_flow_schemas_for_writers_of_endpoints(store: Any) -> None:
    await FlowControlObjects(store, Identity(), Release(1, 36)).ensure()

    names = {record.key for record in store.collection(NAMES.schemas).select()}
    assert len(names) == 11
    assert names.isdisjoint({"endpoint-controller", "workload-leader-election"})


async def test_default_objects_are_created(store: Any) -> None:
    await FlowControlObjects(store, Identity()).ensure()

    assert len(store.collection(NAMES.levels)) == 8
    assert len(store.collection(NAMES.schemas)) == 13
    probes = store.read(NAMES.schemas, "probes")
    assert (probes["kind"], probes["apiVersion"]) == ("FlowSchema", "flowcontrol.apiserver.k8s.io/v1")
    assert (probes["metadata"]["generation"], probes["metadata"]["annotations"]) == (1, {ANNOTATION: "true"})
    writes = store.writes
    await FlowControlObjects(store, Identity()).ensure()
    assert store.writes == writes


@pytest.mark.parametrize(
    ("annotations", "precedence", "annotated"),
    [({ANNOTATION: "true"}, 9900, "true"), ({ANNOTATION: "false"}, 7, "false"), ({}, 7, "false")],
)
async def test_changed_suggested_object_is_restored_unless_an_operator_owns_it(
    store: Any, annotations: dict[str, str], precedence: int, annotated: str
) -> None:
    maintained = FlowControlObjects(store, Identity())
    await maintained.ensure()
    change(store, NAMES.schemas, "global-default", lambda spec: spec.update(matchingPrecedence=7), **annotations)

    await maintained.ensure()

    found = store.read(NAMES.schemas, "global-default")
    assert found["spec"]["matchingPrecedence"] == precedence
    assert found["metadata"]["annotations"] == {ANNOTATION: annotated}
    assert found["metadata"]["generation"] == (3 if annotated == "true" else 2)


async def test_changed_mandatory_object_is_always_restored(store: Any) -> None:
    maintained = FlowControlObjects(store, Identity())
    await maintained.ensure()
    declined = {ANNOTATION: "false"}
    change(store, NAMES.schemas, "catch-all", lambda spec: spec.update(matchingPrecedence=7), **declined)
    change(store, NAMES.levels, "exempt", lambda spec: spec["exempt"].update(lendablePercent=50), **declined)

    await maintained.ensure()

    assert store.read(NAMES.schemas, "catch-all")["spec"]["matchingPrecedence"] == 10_000
    exempt = store.read(NAMES.levels, "exempt")
    assert exempt["spec"]["exempt"]["lendablePercent"] == 50, "operators may change the seats of the exempt level"
    assert exempt["metadata"]["annotations"] == {ANNOTATION: "true"}


async def test_object_of_an_earlier_release_is_deleted_unless_operators_own_it(store: Any) -> None:
    for name, value in (("old", "true"), ("mine", "false"), ("other", "")):
        spec = default_spec()
        store.put(NAMES.schemas, {"metadata": {"name": name, "annotations": {ANNOTATION: value}}, "spec": spec})

    await FlowControlObjects(store, Identity()).ensure()

    assert store.read(NAMES.schemas, "old") is None
    assert store.read(NAMES.schemas, "mine") and store.read(NAMES.schemas, "other")


def default_spec(level: str = "jail", precedence: int = 10) -> dict[str, Any]:
    subjects = [{"kind": "User", "user": {"name": "alice"}}]
    rule = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}
    return {
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        "rules": [{"subjects": subjects, "resourceRules": [rule]}],
    }


async def test_stored_objects_configure_flow_control(
    store: Any, fairness: PriorityAndFairness, clock: FakeClock
) -> None:
    async with running(store, fairness, clock):
        limited = {"nominalConcurrencyShares": 1, "limitResponse": {"type": "Reject"}, "lendablePercent": 0}
        level = {"metadata": {"name": "jail", "uid": "2"}, "spec": {"type": "Limited", "limited": limited}}
        store.put(NAMES.levels, level)
        store.put(NAMES.schemas, {"metadata": {"name": "alice", "uid": "1"}, "spec": default_spec()})
        await clock.advance(1)

        found = fairness.sort(ALICE, PODS)

        assert (found.name, found.level) == ("alice", "jail")
        assert dict(found.headers) == {
            "X-Kubernetes-Pf-Flowschema-Uid": "1",
            "X-Kubernetes-Pf-Prioritylevel-Uid": "2",
        }
        assert fairness.levels["jail"].seats == 3
        store.remove(NAMES.schemas, "alice")
        await clock.advance(1)
        assert fairness.sort(ALICE, PODS).name == "global-default"


async def test_flow_schema_without_its_priority_level_is_dangling(
    store: Any, fairness: PriorityAndFairness, clock: FakeClock
) -> None:
    async with running(store, fairness, clock):
        store.put(NAMES.schemas, {"metadata": {"name": "alice"}, "spec": default_spec()})
        await clock.advance(1)

        (condition,) = store.read(NAMES.schemas, "alice")["status"]["conditions"]
        assert (condition["type"], condition["status"], condition["reason"]) == ("Dangling", "True", "NotFound")
        assert condition["message"] == (
            'This FlowSchema references the PriorityLevelConfiguration object named "jail" but there is no such object'
        )
        assert fairness.sort(ALICE, PODS).name == "global-default"
        (condition,) = store.read(NAMES.schemas, "probes")["status"]["conditions"]
        assert (condition["status"], condition["reason"]) == ("False", "Found")


async def test_deleted_default_objects_are_created_again(
    store: Any, fairness: PriorityAndFairness, clock: FakeClock
) -> None:
    async with running(store, fairness, clock):
        store.remove(NAMES.levels, "global-default")
        store.remove(NAMES.schemas, "exempt")
        await clock.advance(1)

        assert fairness.sort(ALICE, PODS).level == "global-default"
        assert store.read(NAMES.schemas, "exempt")["spec"]["matchingPrecedence"] == 1
