"""Tests for handlers and features in the node status, and for servers that do not store them."""

from __future__ import annotations

from typing import Any

import pytest

from nodeagent.contracts.api import NODES
from nodeagent.contracts.node import NodeReport
from nodeagent.contracts.runtime import RuntimeFeatures, RuntimeHandler
from nodeagent.testing import FakeApi, FakeClock
from tests.unit.node.conftest import MakeNode

HANDLERS = (RuntimeHandler("runc", True, True), RuntimeHandler("", True, True), RuntimeHandler("crun", False, True))


def status_of(api: FakeApi) -> dict[str, Any]:
    node = api.find(NODES, "node-1", "")
    assert node is not None
    found: dict[str, Any] = node["status"]
    return found


def patched_names(api: FakeApi) -> list[str]:
    bodies = [request.body for request in api.requests if request.verb == "patch" and request.resource == NODES]
    return [name for body in bodies for name in body["status"]]


async def test_handlers_and_features_of_the_runtime_are_reported(
    make_node: MakeNode, api: FakeApi, clock: FakeClock
) -> None:
    node = make_node()
    node.context.runtime.handlers = HANDLERS  # type: ignore[attr-defined]
    node.context.runtime.features = RuntimeFeatures(supplemental_groups_policy=False)  # type: ignore[attr-defined]
    node.plugin.report = NodeReport(declared_features=("B", "A", "B"))

    async with node.running():
        await clock.advance(6)

    status = status_of(api)
    assert status["runtimeHandlers"] == [
        {"name": "", "features": {"recursiveReadOnlyMounts": True, "userNamespaces": True}},
        {"name": "crun", "features": {"recursiveReadOnlyMounts": False, "userNamespaces": True}},
        {"name": "runc", "features": {"recursiveReadOnlyMounts": True, "userNamespaces": True}},
    ]
    assert status["features"] == {"supplementalGroupsPolicy": False}
    assert status["declaredFeatures"] == ["A", "B"]


async def test_runtime_without_features_adds_no_fields(make_node: MakeNode, api: FakeApi, clock: FakeClock) -> None:
    async with make_node().running():
        await clock.advance(20)

    assert not {"runtimeHandlers", "features", "declaredFeatures"} & status_of(api).keys()


async def test_fields_of_a_replaced_runtime_are_removed(make_node: MakeNode, api: FakeApi, clock: FakeClock) -> None:
    node = make_node()
    runtime: Any = node.context.runtime
    runtime.handlers, runtime.features = HANDLERS, RuntimeFeatures(True)
    async with node.running():
        await clock.advance(20)
        before = status_of(api)
        runtime.handlers, runtime.features = (), None
        await clock.advance(11)

    assert {"runtimeHandlers", "features"} <= before.keys()
    assert not {"runtimeHandlers", "features"} & {name for name, value in status_of(api).items() if value}


@pytest.mark.parametrize("dropped", ["all", "part"])
async def test_fields_that_the_server_drops_are_sent_only_with_heartbeats(
    make_node: MakeNode, api: FakeApi, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, dropped: str
) -> None:
    send = api.patch

    async def patch(resource: Any, name: str, patch: Any, *arguments: Any, **options: Any) -> Any:
        """Store a patch as a server of an older release does."""
        sent = await send(resource, name, patch, *arguments, **options)
        status = sent["status"]
        for field in ("runtimeHandlers", "features", "declaredFeatures"):
            if dropped == "all" or field == "declaredFeatures":
                status.pop(field, None)
        for handler in status.get("runtimeHandlers") or ():
            handler["features"].pop("userNamespaces", None)
        api.put(NODES, sent)
        return sent

    monkeypatch.setattr(api, "patch", patch)
    node = make_node()
    runtime: Any = node.context.runtime
    runtime.handlers, runtime.features = HANDLERS, RuntimeFeatures(True)
    node.plugin.report = NodeReport(declared_features=("A",))

    async with node.running():
        await clock.advance(30)
        early = patched_names(api).count("declaredFeatures")
        await clock.advance(200)
        late = patched_names(api).count("declaredFeatures")
        await clock.advance(120)
        heartbeat = patched_names(api).count("declaredFeatures")
        runtime.features = RuntimeFeatures(False)
        await clock.advance(11)
        changed = patched_names(api).count("features")

    assert (late, heartbeat) == (early, early + 1)
    assert dropped == "part" or changed > 0
