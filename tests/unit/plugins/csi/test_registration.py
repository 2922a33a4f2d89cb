"""Tests for the registration of CSI drivers: versions, Node, CSINode, and periodic limits."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import replace

import pytest

from nodeagent.base.release import NEWEST, Release, SelectedRelease
from nodeagent.config.features import build_gates
from nodeagent.contracts.api import CSI_NODES, NODES
from nodeagent.contracts.plugin_registry import RegisteredPlugin
from nodeagent.errors import ApiConflict, ApiError, PluginRegistrationError
from nodeagent.testing.clock import eventually
from nodeagent.testing.context import make_context
from nodeagent.testing.contracts import PluginHandlerContract
from nodeagent.testing.plugins import load_plugin
from nodeagent_plugins import csi
from nodeagent_plugins.csi.drivers import NodeInfo
from nodeagent_plugins.csi.kind import CsiVolumes
from nodeagent_plugins.csi.node_labels import MAX_SEGMENTS, check_topology
from nodeagent_plugins.csi.node_objects import NodeObjectError, NodeObjects
from nodeagent_plugins.csi.registration import CsiRegistration, LimitRefresh, highest_version

NODE_ID = "csi.volume.kubernetes.io/nodeid"
MIGRATED = (
    "kubernetes.io/aws-ebs,kubernetes.io/azure-disk,kubernetes.io/azure-file,"
    "kubernetes.io/cinder,kubernetes.io/gce-pd,kubernetes.io/vsphere-volume"
)


@pytest.fixture
def objects(harness):
    harness.api.put(NODES, {"metadata": {"name": "node-1", "uid": "node-uid", "labels": {"zone": "a"}}})
    return NodeObjects(harness.context, harness.api)


@pytest.fixture
def handler(harness, objects):
    return CsiRegistration(harness.drivers, objects)


@pytest.fixture
def plugin(harness):
    return registered(harness)


def registered(harness):
    """Return the description of the driver, which is not registered."""
    harness.drivers.remove("test.csi.example")
    return RegisteredPlugin("CSIPlugin", "test.csi.example", str(harness.socket), ["1.0.0"], "/registry/a.sock")


class TestCsiRegistration(PluginHandlerContract):
    @pytest.fixture
    async def handler(self, harness, objects):
        return CsiRegistration(harness.drivers, objects)

    @pytest.fixture
    def plugin(self, harness):
        return registered(harness)


def entries(harness):
    return harness.api.find(CSI_NODES, "node-1")["spec"]["drivers"]


def node(harness):
    return harness.api.find(NODES, "node-1")["metadata"]


async def test_driver_is_entered_into_node_and_csi_node(harness, handler, plugin):
    harness.service.topology = {"topology.test/zone": "z1", "topology.test/rack": "r1"}
    harness.service.max_volumes = 25

    await handler.validate(plugin)
    await handler.register(plugin)

    assert json.loads(node(harness)["annotations"][NODE_ID]) == {"test.csi.example": "node-1"}
    assert node(harness)["labels"] == {"zone": "a", "topology.test/zone": "z1", "topology.test/rack": "r1"}
    assert entries(harness) == [
        {
            "name": "test.csi.example",
            "nodeID": "node-1",
            "topologyKeys": ["topology.test/rack", "topology.test/zone"],
            "allocatable": {"count": 25},
        }
    ]
    assert harness.drivers.find("test.csi.example").endpoint == str(harness.socket)

    await handler.deregister(plugin)

    assert entries(harness) == [] and NODE_ID not in node(harness)["annotations"]
    assert node(harness)["labels"]["topology.test/zone"] == "z1"
    assert harness.drivers.find("test.csi.example") is None


async def test_unchanged_entry_is_not_written(harness, handler, plugin):
    await handler.register(plugin)
    writes = [len(harness.api.made(verb)) for verb in ("update", "patch")]

    await handler.register(plugin)

    assert writes == [len(harness.api.made(verb)) for verb in ("update", "patch")]


async def test_new_node_id_replaces_the_entry(harness, handler, plugin):
    await handler.register(plugin)
    await handler.deregister(plugin)
    harness.service.node_id = "other"
    await handler.register(plugin)
    assert [entry["nodeID"] for entry in entries(harness)] == ["other"]


@pytest.mark.parametrize("limit", [(0, None, 0), (-1, None, 1), (1, 1, 0), (3 << 31, 2147483647, 0)])
async def test_volume_limit(harness, handler, plugin, caplog, limit):
    harness.service.max_volumes, expected, errors = limit
    await handler.register(plugin)
    assert entries(harness)[0].get("allocatable", {}).get("count") == expected
    assert caplog.messages.count("Invalid attach limit") == errors


async def test_driver_is_deregistered_after_its_objects_were_deleted(harness, handler, objects, plugin):
    await handler.register(plugin)
    harness.api.remove(NODES, "node-1")
    harness.api.remove(CSI_NODES, "node-1")

    await objects.uninstall("test.csi.example")

    assert harness.api.find(CSI_NODES, "node-1") is None


@pytest.mark.parametrize("entry", [{"nodeID": "n"}, {"nodeID": "n", "topologyKeys": None, "allocatable": None}])
async def test_entry_without_topology_keys_is_compared(harness, objects, entry):
    await objects.install("d", NodeInfo("n"))
    csi_node = harness.api.find(CSI_NODES, "node-1")
    harness.api.put(CSI_NODES, {**csi_node, "spec": {"drivers": [{"name": "d", **entry}]}})
    writes = len(harness.api.made("update"))

    await objects.install("d", NodeInfo("n"))

    assert len(harness.api.made("update")) == writes


async def test_csi_node_without_drivers_is_not_written(harness, objects):
    await objects._read()
    harness.api.put(CSI_NODES, {**harness.api.find(CSI_NODES, "node-1"), "spec": {"drivers": None}})

    await objects.uninstall("d")

    assert not harness.api.made("update")


@pytest.mark.parametrize(
    ("topology", "node_id", "message"),
    [
        ({"zone": "b"}, "n", 'detected topology value collision: driver reported "zone":"b" but existing label is'),
        ({f"topology.test/{n}": "b" for n in range(100_000)}, "n", "reported 100000 topology segments, more than 64"),
        ({"topology.kubernetes.io/rack": "b"}, "n", "which a node is not allowed to set"),
        ({"node-restriction.kubernetes.io/x": "b"}, "n", "which a node is not allowed to set"),
        ({"node-role.kubernetes.io/control-plane": ""}, "n", "which a node is not allowed to set"),
        ({}, "", "driverNodeID must not be empty"),
    ],
)
async def test_rejected_node_information_undoes_the_registration(harness, handler, plugin, topology, node_id, message):
    harness.service.topology, harness.service.node_id = topology, node_id
    registration = asyncio.create_task(handler.register(plugin))
    await eventually(lambda: registration.done() or harness.context.clock.sleepers)
    while not registration.done():
        await harness.context.clock.advance(2)
        await asyncio.sleep(0.01)

    with pytest.raises(PluginRegistrationError, match=message):
        await registration

    assert harness.drivers.find("test.csi.example") is None
    assert node(harness)["labels"] == {"zone": "a"} and "annotations" not in node(harness)


def test_permitted_topology_keys():
    permitted = (
        "topology.kubernetes.io/zone", "topology.ebs.csi.aws.com/zone", "kubelet.kubernetes.io/x",
        "x.node.kubernetes.io/y", "plain", "example.com/kubernetes.io",
    )  # fmt: skip
    check_topology(dict.fromkeys(permitted, "v"), {})
    for key in ("kubernetes.io/x", "a.k8s.io/x", "x.node-restriction.kubernetes.io/y"):
        with pytest.raises(ValueError, match="not allowed to set"):
            check_topology({key: "v"}, {})


async def test_failing_driver_is_removed_again(harness, handler, plugin):
    harness.faults.set("NodeGetInfo", code="INTERNAL", message="metadata service")

    with pytest.raises(PluginRegistrationError, match="code = Internal desc = metadata service"):
        await handler.register(plugin)

    assert harness.drivers.find("test.csi.example") is None


async def test_second_driver_of_one_name_is_rejected(handler, plugin):
    await handler.register(plugin)

    with pytest.raises(PluginRegistrationError, match="Another driver with the same name is already registered"):
        await handler.validate(plugin)


@pytest.mark.parametrize("name", ["../../etc", "a/b", "", "-a", "a" * 64, "a..\n"])
async def test_driver_name_unsuitable_as_directory_is_rejected(handler, plugin, name):
    import dataclasses

    with pytest.raises(PluginRegistrationError, match="invalid driver name"):
        await handler.validate(dataclasses.replace(plugin, name=name))


def test_highest_supported_version():
    assert highest_version("d", ["0.3.0", "1.0.0", "v1.2.0-rc1", "2.0.0"]) == (1, 2, 0)
    for versions, message in (
        ([], "Plugin returned an empty list for supported versions"),
        (["2.0.0", "x"], "None of the versions specified"),
        (["0.3.0"], "None of the versions specified"),
    ):
        with pytest.raises(PluginRegistrationError, match=message):
            highest_version("d", versions)


# --- CSINode ------------------------------------------------------------------------------------------------------


async def started(objects, clock, seconds=0.0):
    task = asyncio.create_task(objects.run())
    await clock.advance(seconds)
    return task


async def test_csi_node_is_created_with_owner_and_annotation(harness, objects, clock):
    assert objects.problem == "CSINode is not yet initialized"
    task = await started(objects, clock)

    created = harness.api.find(CSI_NODES, "node-1")
    assert created["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "node-uid"}
    ]
    assert created["metadata"]["annotations"] == {"storage.alpha.kubernetes.io/migrated-plugins": MIGRATED}
    assert created["spec"] == {"drivers": []} and objects.problem == ""
    task.cancel()


async def test_csi_node_waits_for_the_registration_of_the_node(harness, objects, clock):
    registered_node = harness.api.find(NODES, "node-1")
    harness.api.remove(NODES, "node-1")
    task = await started(objects, clock, 10)
    assert objects.problem == "CSINode is not yet initialized" and not harness.api.made("create")

    harness.api.put(NODES, registered_node)
    await clock.advance(3)
    assert objects.problem == ""
    task.cancel()


async def test_portworx_is_listed_since_1_33(harness, objects, clock):
    harness.context.release = SelectedRelease(Release(1, 33))
    task = await started(objects, clock)
    annotation = harness.api.find(CSI_NODES, "node-1")["metadata"]["annotations"]
    assert "kubernetes.io/portworx-volume" in annotation["storage.alpha.kubernetes.io/migrated-plugins"]
    task.cancel()


async def test_csi_node_of_an_earlier_node_is_replaced(harness, objects, clock):
    owner = {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "old"}
    harness.api.put(CSI_NODES, {"metadata": {"name": "node-1", "ownerReferences": [owner]}, "spec": {"drivers": [{}]}})
    task = await started(objects, clock, 1.0)

    found = harness.api.find(CSI_NODES, "node-1")
    assert found["metadata"]["ownerReferences"][0]["uid"] == "node-uid" and found["spec"]["drivers"] == []
    task.cancel()


async def test_initialization_is_retried_and_reported(harness, objects, clock):
    harness.api.fail("create", ApiError("forbidden", code=403), 5)
    task = await started(objects, clock)
    assert objects.problem.startswith("failed to initialize CSINode: ")
    await clock.advance(300)
    assert objects.problem == ""
    task.cancel()


async def test_four_conflicts_in_a_row_fail_the_update(harness, objects, clock):
    await objects._read()
    harness.api.fail("update", ApiConflict("changed", code=409), 4)
    failing = asyncio.create_task(objects.install("d", NodeInfo("n")))
    await clock.advance(0.5)
    assert (failing.done(), clock.sleepers) == (True, 0)
    with pytest.raises(NodeObjectError, match=r"error updating CSINode object with CSI driver node info: .*changed"):
        await failing
    await objects.install("d", NodeInfo("n"))
    assert [entry["name"] for entry in entries(harness)] == ["d"]


# --- periodic limits ----------------------------------------------------------------------------------------------


async def test_limit_is_updated_periodically(harness, handler, objects, plugin, clock):
    harness.put_driver(nodeAllocatableUpdatePeriodSeconds=20)
    await clock.settle()
    refresh = asyncio.create_task(LimitRefresh(harness.drivers, harness.specs, objects, clock).run())
    harness.service.max_volumes = 5
    await handler.register(plugin)
    harness.service.max_volumes = 3
    await clock.advance(10)
    assert entries(harness)[0]["allocatable"] == {"count": 5}

    await clock.advance(11)
    await eventually(lambda: entries(harness)[0]["allocatable"] == {"count": 3})

    harness.put_driver()
    await clock.settle()
    calls = len(harness.storage.calls("NodeGetInfo"))
    await clock.advance(100)
    assert len(harness.storage.calls("NodeGetInfo")) == calls
    refresh.cancel()


async def test_limit_is_updated_when_it_prevents_an_attachment(harness, handler, objects, plugin, clock):
    limits = LimitRefresh(harness.drivers, harness.specs, objects, clock)
    kind = CsiVolumes(harness.context, harness.drivers, harness.specs, limits)
    harness.service.max_volumes = 5
    await handler.register(plugin)
    harness.service.max_volumes = 3
    spec = harness.spec()

    async def exceeded(**status):
        harness.attach(**status)
        return await kind.limit_exceeded(spec)

    exhausted = {"attachError": {"message": "full", "errorCode": 8}}
    harness.put_driver(attachRequired=True)
    await clock.settle()
    assert not await exceeded(attached=False, **exhausted)  # The limit of the driver never changes.
    harness.put_driver(attachRequired=True, nodeAllocatableUpdatePeriodSeconds=20)
    await clock.settle()
    assert not await exceeded(attached=False, attachError={"message": "no", "errorCode": 13})
    assert not await exceeded(attached=True, **exhausted)
    assert entries(harness)[0]["allocatable"] == {"count": 5}
    assert await exceeded(attached=False, **exhausted)
    assert entries(harness)[0]["allocatable"] == {"count": 3}
    assert not await harness.kind.limit_exceeded(spec)  # The gate is disabled.


# --- the plugin ---------------------------------------------------------------------------------------------------


async def test_plugin_reports_the_node_as_not_ready_until_csi_node_exists(harness, objects, clock):
    context = harness.context
    plugins = load_plugin(csi, name="csi", context=context)
    assert await plugins.gather("nodeagent_report_node") == []
    (kinds,) = plugins.provide_all("nodeagent_provide_persistent_volume_kinds", context=context)
    (handlers,) = plugins.provide_all("nodeagent_provide_plugin_handlers", context=context)
    (loops,) = plugins.provide_all("nodeagent_provide_background_loops", context=context, plugins=plugins)
    (report,) = await plugins.gather("nodeagent_report_node")

    assert [kind.name for kind in kinds.value] == ["kubernetes.io~csi"]
    assert [handler.plugin_type for handler in handlers.value] == ["CSIPlugin"]
    assert report.value.not_ready == ["CSINode is not yet initialized"]
    assert [loop.name for loop in loops.value] == ["CSI drivers", "CSINode"]
    tasks = [asyncio.create_task(loop.run()) for loop in loops.value]
    await clock.settle()
    assert await plugins.gather("nodeagent_report_node") == []
    for task in tasks:
        task.cancel()


@pytest.mark.parametrize(("count", "permitted"), [(MAX_SEGMENTS, True), (MAX_SEGMENTS + 1, False)])
def test_number_of_topology_segments_is_limited(count, permitted):
    topology = {f"key-{number}": "v" for number in range(count)}

    with contextlib.nullcontext() if permitted else pytest.raises(ValueError, match="65 topology segments"):
        check_topology(topology, {})


async def test_entry_of_a_driver_remains_while_another_endpoint_is_registered(harness, handler, plugin):
    await handler.register(plugin)

    await handler.deregister(replace(plugin, endpoint="/earlier.sock"))

    assert [entry["name"] for entry in entries(harness)] == ["test.csi.example"]
    assert harness.drivers.find("test.csi.example") is not None


async def test_driver_of_a_standalone_node_is_registered_without_objects(harness, plugin):
    handler = CsiRegistration(harness.drivers, None)

    await handler.register(plugin)
    assert harness.drivers.find("test.csi.example") is not None
    await handler.deregister(plugin)
    assert harness.drivers.find("test.csi.example") is None
    harness.faults.set("NodeGetInfo", code="INTERNAL", message="metadata service")
    with contextlib.suppress(PluginRegistrationError):
        await handler.register(plugin)

    assert not harness.api.made("patch")


@pytest.mark.parametrize(("period", "calls"), [(None, 0), (0, 0), (5, 1)])
async def test_limit_is_updated_at_the_shortest_period(harness, handler, objects, plugin, clock, period, calls):
    harness.put_driver(nodeAllocatableUpdatePeriodSeconds=period)
    await clock.settle()
    refresh = asyncio.create_task(LimitRefresh(harness.drivers, harness.specs, objects, clock).run())
    await handler.register(plugin)
    await clock.settle()
    before = len(harness.storage.calls("NodeGetInfo"))

    await clock.advance(9.5)
    assert len(harness.storage.calls("NodeGetInfo")) == before
    await clock.advance(0.5)

    await eventually(lambda: len(harness.storage.calls("NodeGetInfo")) == before + calls)
    refresh.cancel()


async def test_standalone_node_has_no_objects_of_drivers(tmp_path, clock):
    gates = build_gates({"MutableCSINodeAllocatableCount": True}, NEWEST)
    context = make_context(tmp_path, api=None, clock=clock, gates=gates)
    plugins = load_plugin(csi, name="csi", context=context)
    (kinds,) = plugins.provide_all("nodeagent_provide_persistent_volume_kinds", context=context)
    loops = plugins.provide_all("nodeagent_provide_background_loops", context=context, plugins=plugins)

    assert [kind.name for kind in kinds.value] == ["kubernetes.io~csi"]
    assert [loop for each in loops for loop in each.value] == []
    await context.cleanup.aclose()


async def test_csi_node_of_a_node_that_was_created_again_is_kept(harness, objects):
    await objects._read()
    harness.api.remove(NODES, "node-1")
    harness.api.put(NODES, {"metadata": {"name": "node-1", "uid": "new-uid", "labels": {}}})
    owner = {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "new-uid"}
    harness.api.put(CSI_NODES, {"metadata": {"name": "node-1", "ownerReferences": [owner]}, "spec": {"drivers": []}})

    await objects.install("d", NodeInfo("n"))

    assert [entry["name"] for entry in entries(harness)] == ["d"]
    assert harness.api.made("delete") == []
