"""Tests for the device manager: reservation, allocation, waiting pods, restarts and the node status."""

from __future__ import annotations

import asyncio
import json
import shutil

import msgspec
import pytest

from nodeagent.contracts.device_report import DevicesRequest
from nodeagent.contracts.device_responses import DeviceResponse
from nodeagent.contracts.devices import DeviceHealth, ProvidedDevice
from nodeagent.contracts.runtime import Device, Mount
from nodeagent.errors import DeviceError, DevicesNotReady
from nodeagent.model.meta import OwnerReference
from nodeagent.model.pod import PodStatus
from nodeagent.testing import FakeClock, FakeDeviceProvider, eventually, make_container, make_context, make_pod
from nodeagent.testing.contracts import BackgroundLoopContract, DeviceManagerContract, DeviceProviderContract
from nodeagent_plugins.devices import metrics
from nodeagent_plugins.devices.inventory import Resource
from nodeagent_plugins.devices.manager import Devices
from nodeagent_plugins.devices.report import Report, expose
from nodeagent_plugins.devices.store import BOOT_FILE, SYNCED_FILE

WIDGET = "example.com/widget"


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
async def context(tmp_path, clock):
    context = make_context(tmp_path, clock=clock)
    yield context
    await context.tasks.close()


@pytest.fixture
async def make_devices(context, tmp_path):
    def make(*providers, **options):
        return Devices(context, providers, tmp_path / "device-plugins", **options)

    return make


def requesting(name, count=1, init=(), **fields):
    containers = [make_container("main", resources={"limits": {WIDGET: str(count)}})]
    init_containers = [make_container(each, resources={"limits": {WIDGET: str(count)}}) for each in init]
    return make_pod(name, containers=containers, init_containers=init_containers, **fields)


async def settle():
    for _ in range(20):
        await asyncio.sleep(0)


async def admit(devices, context, pod):
    rejection = await devices.nodeagent_admit_pod(pod, [])
    if rejection is None:
        context.pods.add(pod)
    return rejection


async def started(devices):
    await devices.start()
    await settle()
    return devices


def envs(devices, pod, container="main"):
    each = next(c for c in [*(pod.spec.init_containers or ()), *pod.spec.containers] if c.name == container)
    return devices.container_response(pod, each).envs.get("DEVICES")


async def test_reserved_devices_are_allocated_by_the_worker(make_devices, context):
    provider = FakeDeviceProvider()
    devices = await started(make_devices(provider))
    pod = requesting("web")

    assert await admit(devices, context, pod) is None
    assert provider.allocated == []
    assert devices.decided(pod.uid) == {WIDGET}
    await devices.prepare_pod(pod)

    assert envs(devices, pod) == "w0"


async def test_pods_never_share_a_device(make_devices, context):
    devices = await started(make_devices(FakeDeviceProvider()))
    pods = [requesting(f"p{number}") for number in range(3)]

    rejections = [await admit(devices, context, pod) for pod in pods]
    for pod in pods[:2]:
        await devices.prepare_pod(pod)

    assert rejections[:2] == [None, None]
    assert rejections[2].reason == "UnexpectedAdmissionError"
    assert rejections[2].message == (
        "Allocate failed due to requested number of devices unavailable for example.com/widget. "
        "Requested: 1, Available: 0, which is unexpected"
    )
    assert [envs(devices, pod) for pod in pods[:2]] == ["w0", "w1"]


async def test_terminated_pod_releases_its_devices(make_devices, context):
    devices = await started(make_devices(FakeDeviceProvider(devices=["only"])))
    first, second = requesting("first"), requesting("second")
    await admit(devices, context, first)
    await devices.prepare_pod(first)
    await devices.nodeagent_pod_terminated(first)

    assert await admit(devices, context, second) is None


async def test_devices_of_init_containers_are_reused(make_devices, context):
    provider = FakeDeviceProvider()
    devices = await started(make_devices(provider))
    pod = requesting("web", 2, init=["prepare"])

    assert await admit(devices, context, pod) is None
    await devices.prepare_pod(pod)

    assert envs(devices, pod) == envs(devices, pod, "prepare") == "w0,w1"


async def test_preference_of_the_provider_is_used(make_devices, context):
    provider = FakeDeviceProvider(devices=["w0", "w1", "w2"])
    provider.has_preference, provider.preferred = True, ["unknown", "w2"]
    devices = await started(make_devices(provider))
    pod = requesting("web", 2)

    await admit(devices, context, pod)
    await devices.prepare_pod(pod)

    assert envs(devices, pod) == "w2,w0"


async def test_pod_waits_for_a_resource_of_the_checkpoint(make_devices, context, clock):
    before = await started(make_devices(FakeDeviceProvider()))
    await before._save()

    devices, pod = await started(make_devices()), requesting("web")
    assert await admit(devices, context, pod) is None
    with pytest.raises(DevicesNotReady, match=f"waiting for device plugins: {WIDGET}: not registered") as raised:
        await devices.prepare_pod(pod)
    assert raised.value.reason == "WaitingForDevices"
    assert [event.reason for event in context.recorder.events][-1:] == ["WaitingForDevices"]

    devices.add(FakeDeviceProvider())
    await settle()
    assert context.pods.triggered == [pod.uid]
    await devices.prepare_pod(pod)
    assert envs(devices, pod) == "w0"


async def test_pod_that_waits_too_long_is_rejected(make_devices, context, clock):
    devices = await started(make_devices(expected=[WIDGET], wait_seconds=10))
    pod = requesting("web")
    await admit(devices, context, pod)

    await clock.advance(11)
    with pytest.raises(DevicesNotReady):
        await devices.prepare_pod(pod)

    (kill,) = context.pods.kills
    assert kill.status_reason == "UnexpectedAdmissionError"
    assert kill.message == (
        "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices "
        "example.com/widget, which is unexpected"
    )


async def test_pod_is_rejected_exactly_at_its_limit(make_devices, context, clock):
    devices = await started(make_devices(expected=[WIDGET], wait_seconds=10))
    pod, loop = requesting("web"), asyncio.create_task(devices.run())
    await admit(devices, context, pod)
    waiting = devices._waiting
    context.pods.triggered.clear()

    await clock.advance(9)
    assert waiting.expire(60.0) == 1 and context.pods.triggered == []
    with pytest.raises(DevicesNotReady):
        waiting.check(pod.uid)
    await clock.advance(1)
    assert waiting.expire(60.0) == 60.0 and pod.uid in context.pods.triggered
    with pytest.raises(DeviceError, match="no healthy devices present"):
        waiting.check(pod.uid)
    loop.cancel()


async def test_preference_cannot_be_used_for_unhealthy_devices(make_devices, context):
    provider = FakeDeviceProvider(devices=["w0", "w1", "w2"])
    devices = await started(make_devices(provider))
    pod = requesting("web", 2)
    await admit(devices, context, pod)
    provider.set(ProvidedDevice("w0", healthy=False), ProvidedDevice("w1"), ProvidedDevice("w2"))
    await settle()

    await devices.prepare_pod(pod)

    assert envs(devices, pod) == "w1,w2"


async def test_exchanged_device_is_exchanged_for_the_containers_that_reuse_it(make_devices, context):
    provider = FakeDeviceProvider(devices=["w0", "w1", "w2", "w3"])
    other = FakeDeviceProvider("example.com/other", ["w0", "w1"])
    devices = await started(make_devices(provider, other))
    limits = {WIDGET: "1", "example.com/other": "1"}
    init, main, sidecar = (
        make_container(name, resources={"limits": limits}, **fields)
        for name, fields in (("init", {}), ("main", {}), ("proxy", {"restart_policy": "Always"}))
    )
    pod = make_pod(init_containers=[sidecar, init], containers=[main])
    await admit(devices, context, pod)
    allocations = devices.reservations.allocations

    def held(resource):
        return [allocations.get(pod.uid, name, resource).ids for name in ("proxy", "init", "main")]

    assert held(WIDGET) == [("w0",), ("w1",), ("w1",)]
    devices.reservations.exchange(pod, "init", devices.reservations.resources[WIDGET], ["w3"])

    assert held(WIDGET) == [("w0",), ("w3",), ("w3",)]
    assert held("example.com/other") == [("w0",), ("w1",), ("w1",)]
    assert allocations.get(pod.uid, "main", WIDGET).required == {"w3"}


async def test_allocated_device_is_not_exchanged_with_a_reserved_one(make_devices, context):
    devices = await started(make_devices(FakeDeviceProvider(devices=["w0", "w1"])))
    pod = requesting("web", init=["first"])
    await admit(devices, context, pod)
    allocations = devices.reservations.allocations
    main = allocations.get(pod.uid, "main", WIDGET)
    main.response = DeviceResponse()

    devices.reservations.exchange(pod, "first", devices.reservations.resources[WIDGET], ["w1"])

    assert (main.ids, allocations.get(pod.uid, "first", WIDGET).ids) == (("w0",), ("w1",))


async def test_failed_admission_keeps_earlier_reservations(make_devices, context):
    devices = await started(make_devices(FakeDeviceProvider(devices=["w0"])))
    pod = requesting("web")
    await admit(devices, context, pod)

    changed = make_pod(
        "web", containers=[pod.spec.containers[0], make_container("more", resources={"limits": {WIDGET: "1"}})]
    )
    assert await devices.nodeagent_admit_pod(changed, []) is not None
    assert devices.reservations.allocations.get(pod.uid, "main", WIDGET).ids == ("w0",)

    other = requesting("other", 2)
    assert await devices.nodeagent_admit_pod(other, []) is not None
    assert devices.reservations.allocations.pods == {pod.uid}


async def test_provider_without_preparation_or_connection_is_not_called(make_devices, context):
    provider, pod = FakeDeviceProvider(), requesting("web")
    devices = await started(make_devices(provider))
    await admit(devices, context, pod)
    await devices.prepare_pod(pod)

    await devices.before_start(pod, pod.spec.containers[0])
    provider.needs_pre_start = True
    devices.reservations.resources[WIDGET].provider = None
    await devices.before_start(pod, pod.spec.containers[0])

    assert provider.starting == []


async def test_restarted_agent_keeps_allocations_without_the_provider(make_devices, context):
    before = await started(make_devices(FakeDeviceProvider()))
    pod = requesting("web")
    await admit(before, context, pod)
    await before.prepare_pod(pod)

    devices = await started(make_devices())
    assert await admit(devices, context, pod) is None
    await devices.prepare_pod(pod)

    assert envs(devices, pod) == "w0"
    report = await devices.nodeagent_report_node()
    assert (report.capacity, report.allocatable) == ({WIDGET: "2"}, {WIDGET: "1"})
    assert devices.health(pod.uid, "main") == {WIDGET: [DeviceHealth("w0", "Unknown")]}


async def test_allocations_of_an_earlier_boot_are_dropped(make_devices, context, tmp_path):
    root = tmp_path / "host"
    boot = root / "proc/sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True)
    boot.write_text("first\n")
    before = await started(make_devices(FakeDeviceProvider(), root=root))
    pod = requesting("web")
    await admit(before, context, pod)
    await before.prepare_pod(pod)
    loop = asyncio.create_task(before.run())
    await eventually((tmp_path / "device-plugins" / BOOT_FILE).exists)
    loop.cancel()

    boot.write_text("second\n")
    devices = await started(make_devices(root=root))
    await admit(devices, context, pod)
    with pytest.raises(DevicesNotReady):
        await devices.prepare_pod(pod)


async def test_unhealthy_devices_are_not_allocated(make_devices, context):
    provider = FakeDeviceProvider()
    devices = await started(make_devices(provider))
    first, second = requesting("first"), requesting("second")
    await admit(devices, context, first)
    provider.set(ProvidedDevice("w0", healthy=False, message="overheated"), ProvidedDevice("w1", healthy=False))
    await settle()

    rejection = await admit(devices, context, second)
    report = await devices.nodeagent_report_node()

    assert "no healthy devices present; cannot allocate unhealthy devices" in rejection.message
    assert (report.capacity, report.allocatable) == ({WIDGET: "2"}, {WIDGET: "0"})
    assert context.pods.triggered == [first.uid]
    assert devices.health(first.uid, "main") == {WIDGET: [DeviceHealth("w0", "Unhealthy", "overheated")]}


async def test_capacity_is_reported_for_five_minutes_without_provider(make_devices, context, clock):
    provider = FakeDeviceProvider()
    devices = await started(make_devices(provider))
    provider.fail("watch", DeviceError("stream broke"), times=None)
    provider.set(ProvidedDevice("w0"))
    await settle()
    loop = asyncio.create_task(devices.run())
    await settle()

    report = await devices.nodeagent_report_node()
    assert (report.capacity, report.allocatable) == ({WIDGET: "2"}, {WIDGET: "0"})
    await clock.advance(301)
    report = await devices.nodeagent_report_node()
    assert (report.capacity, report.allocatable) == ({WIDGET: "0"}, {WIDGET: "0"})

    provider.recover()
    await clock.advance(40)
    report = await devices.nodeagent_report_node()
    assert (report.capacity, report.allocatable) == ({WIDGET: "1"}, {WIDGET: "1"})
    loop.cancel()
    await settle()


async def test_new_provider_replaces_the_earlier_one(make_devices, context):
    first, second = FakeDeviceProvider(devices=["old"]), FakeDeviceProvider(devices=["new"])
    devices = await started(make_devices(first))
    registration = devices.add(second)
    await settle()
    first.set(ProvidedDevice("old"), ProvidedDevice("older"))
    await settle()

    report = await devices.nodeagent_report_node()
    assert report.capacity == {WIDGET: "1"}
    registration.close()
    report = await devices.nodeagent_report_node()
    assert report.allocatable == {WIDGET: "0"}


@pytest.mark.parametrize(
    ("devices_of_list", "message"),
    [
        ([ProvidedDevice("w0"), ProvidedDevice("w0")], 'lists device "w0" twice'),
        ([ProvidedDevice("")], "lists invalid device"),
        ([ProvidedDevice("w0", numa_nodes=[-1])], "with an invalid NUMA node"),
    ],
)
async def test_invalid_list_disconnects_only_its_provider(make_devices, context, devices_of_list, message):
    invalid, other = FakeDeviceProvider(), FakeDeviceProvider("example.com/other")
    devices = await started(make_devices(invalid, other))
    invalid.set(*devices_of_list)
    await settle()

    resource = devices.reservations.resources[WIDGET]
    assert message in resource.error
    report = await devices.nodeagent_report_node()
    assert report.allocatable == {WIDGET: "0", "example.com/other": "2"}


async def test_flood_of_lists_disconnects_the_provider(make_devices, context):
    class Flood(FakeDeviceProvider):
        async def watch(self, publish):
            while True:
                publish([ProvidedDevice("w0")])

    devices = await started(make_devices(Flood()))

    assert "sent more than 100 lists of devices" in devices.reservations.resources[WIDGET].error


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (DeviceResponse(mounts=[Mount("/a", "/b"), Mount("/a", "/c")]), "conflicting mounts at container path '/a'"),
        (DeviceResponse(devices=[Device("dev", "/dev/null")]), "invalid path 'dev' of a device"),
        (DeviceResponse(devices=[Device("/dev/a", "/dev/null", "x")]), "invalid permissions 'x'"),
        (DeviceResponse(cdi_devices=["gpu0"]), "invalid CDI device name 'gpu0'"),
        (DeviceResponse({"A=B": ""}), "invalid environment variable 'A=B'"),
    ],
)
async def test_pod_with_an_invalid_response_is_rejected(make_devices, context, response, message):
    provider, pod = FakeDeviceProvider(), requesting("web")
    provider.response = response
    devices = await started(make_devices(provider))
    await admit(devices, context, pod)

    with pytest.raises(DevicesNotReady, match="pod is rejected"):
        await devices.prepare_pod(pod)

    (kill,) = context.pods.kills
    assert message in kill.message
    assert devices.decided(pod.uid) == set()


async def test_transient_failure_of_the_provider_is_retried(make_devices, context):
    provider, pod = FakeDeviceProvider(), requesting("web")
    provider.fail("allocate", DeviceError("connection lost", transient=True))
    devices = await started(make_devices(provider))
    await admit(devices, context, pod)

    with pytest.raises(DevicesNotReady, match="connection lost"):
        await devices.prepare_pod(pod)
    await devices.prepare_pod(pod)

    assert envs(devices, pod) == "w0"
    assert context.pods.kills == []


async def test_hung_provider_delays_only_its_pods(make_devices, context):
    hung, other = FakeDeviceProvider(), FakeDeviceProvider("example.com/other")
    hung.hang("allocate")
    devices = await started(make_devices(hung, other))
    waiting = requesting("waiting")
    ready = make_pod("ready", containers=[make_container("main", resources={"limits": {"example.com/other": "1"}})])
    await admit(devices, context, waiting)
    task = asyncio.create_task(devices.prepare_pod(waiting))
    await settle()

    await admit(devices, context, ready)
    await devices.prepare_pod(ready)

    assert not task.done()
    hung.recover()
    await task


async def test_checkpoint_lists_only_allocated_devices(make_devices, context, tmp_path):
    devices = await started(make_devices(FakeDeviceProvider()))
    allocated, reserved = requesting("allocated"), requesting("reserved")
    await admit(devices, context, allocated)
    await admit(devices, context, reserved)
    await devices.prepare_pod(allocated)

    content = json.loads((tmp_path / "device-plugins/kubelet_internal_checkpoint").read_text())
    assert [entry["PodUID"] for entry in content["Data"]["PodDeviceEntries"]] == [allocated.uid]
    assert content["Data"]["RegisteredDevices"] == {WIDGET: ["w0", "w1"]}


async def test_rejected_pod_releases_its_devices(make_devices, context):
    devices = await started(make_devices(FakeDeviceProvider(devices=["only"])))
    rejected, next_pod = requesting("rejected"), requesting("next")
    await devices.nodeagent_admit_pod(rejected, [])  # Another plugin rejects it afterwards.

    assert await admit(devices, context, next_pod) is None


async def test_unknown_resource_is_ignored(make_devices, context):
    devices = await started(make_devices())
    pod = requesting("web")

    assert await admit(devices, context, pod) is None
    await devices.prepare_pod(pod)
    assert devices.decided(pod.uid) == set()


async def test_pre_start_is_called_before_each_start(make_devices, context):
    provider, pod = FakeDeviceProvider(), requesting("web")
    provider.needs_pre_start = True
    devices = await started(make_devices(provider))
    await admit(devices, context, pod)
    await devices.prepare_pod(pod)

    for _ in range(2):
        await devices.before_start(pod, pod.spec.containers[0])
    provider.fail("before_start", DeviceError("reset failed"))
    with pytest.raises(DeviceError, match="device plugin PreStartContainer rpc failed with err: reset failed"):
        await devices.before_start(pod, pod.spec.containers[0])

    assert [request.device_ids for request in provider.starting] == [("w0",), ("w0",)]


class TestDevices(DeviceManagerContract):
    @pytest.fixture
    async def devices(self, make_devices):
        return make_devices()


class TestLoop(BackgroundLoopContract):
    @pytest.fixture
    async def loop(self, make_devices):
        return make_devices()


class TestFakeProvider(DeviceProviderContract):
    @pytest.fixture
    async def provider(self):
        return FakeDeviceProvider()


async def test_report_lists_devices_with_their_containers(make_devices, context):
    devices = await started(make_devices(FakeDeviceProvider(), expected=["example.com/late"]))
    pod = requesting("web")
    await admit(devices, context, pod)
    context.devices = devices

    report = await Report(context, devices).report(DevicesRequest())

    late, widget = report.resources
    assert (late.resource, late.connected, late.plugin) == ("example.com/late", False, "")
    assert (widget.resource, widget.capacity, widget.healthy, widget.allocated) == (WIDGET, 2, 2, 1)
    assert [(line.id, line.health, [user.pod for user in line.users]) for line in report.devices] == [
        ("w0", "Healthy", ["web"]),
        ("w1", "Healthy", []),
    ]
    assert not report.devices[0].users[0].allocated


async def test_report_has_nodes_and_owners_of_devices(make_devices, context):
    provider = FakeDeviceProvider()
    provider.set(ProvidedDevice("w0", numa_nodes=(1,)), ProvidedDevice("w1"))
    devices = await started(make_devices(provider))
    references = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": True},
        {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "2"},
    ]
    owners = msgspec.convert(references, list[OwnerReference])
    await admit(devices, context, requesting("web", metadata={"owner_references": owners}))
    removed = requesting("removed")
    assert await devices.nodeagent_admit_pod(removed, []) is None  # The pod is not known.
    provider.set(ProvidedDevice("w0", numa_nodes=(1,)))
    await settle()
    context.devices = devices

    lines = (await Report(context, devices).report(DevicesRequest())).devices

    assert [(line.id, line.numa_nodes, line.health) for line in lines] == [
        ("w0", [1], "Healthy"),
        ("w1", [], "Unknown"),
    ]
    assert [(user.pod, user.pod_uid, user.owner) for line in lines for user in line.users] == [
        ("web", "uid-web", "ReplicaSet/web"),
        ("", "uid-removed", ""),
    ]


async def test_metrics_count_devices_by_state(make_devices, context):
    devices = await started(make_devices(FakeDeviceProvider()))
    await admit(devices, context, requesting("web"))
    expose(devices.reservations, context.clock.now)

    assert metrics.DEVICES.sample() == {(WIDGET, "healthy"): 2, (WIDGET, "unhealthy"): 0, (WIDGET, "allocated"): 1}
    assert metrics.CONNECTED.sample() == {(WIDGET,): 1}
    await context.clock.advance(7)
    assert metrics.LIST_AGE.sample() == {(WIDGET,): 7}
    devices.reservations.resources["example.com/late"] = Resource("example.com/late", 0.0)
    assert metrics.LIST_AGE.sample() == {(WIDGET,): 7}


async def test_damaged_checkpoint_is_rebuilt_from_containers(make_devices, context, tmp_path):
    before = await started(make_devices(FakeDeviceProvider()))
    pod = requesting("web")
    await admit(before, context, pod)
    await before.prepare_pod(pod)
    container = pod.spec.containers[0]
    settings = before.container_response(pod, container)
    context.runtime.start("main", pod, annotations=settings.annotations)
    file = tmp_path / "device-plugins/kubelet_internal_checkpoint"
    file.write_text("damaged")

    devices = await started(make_devices(FakeDeviceProvider()))
    second = requesting("second")
    await admit(devices, context, second)
    await devices.prepare_pod(second)

    assert (file.parent / f"{file.name}.damaged").read_text() == "damaged"
    assert "DeviceCheckpointDamaged" in {event.reason for event in context.recorder.events}
    assert envs(devices, second) == "w1"
    await devices.prepare_pod(pod)  # Its container is restarted.
    assert envs(devices, pod) == "w0"


async def test_pods_wait_for_resources_of_a_checkpoint_that_a_crash_has_damaged(make_devices, context, clock, tmp_path):
    before = await started(make_devices(FakeDeviceProvider()))
    loop = asyncio.create_task(before.run())
    await eventually((tmp_path / f"device-plugins/{SYNCED_FILE}").exists)
    loop.cancel()
    (tmp_path / "later").write_text("")
    (tmp_path / "later").replace(tmp_path / "device-plugins/kubelet_internal_checkpoint")

    devices, pod = await started(make_devices()), requesting("web")
    await admit(devices, context, pod)

    assert devices.decided(pod.uid) == {WIDGET}
    with pytest.raises(DevicesNotReady, match="waiting for device plugins"):
        await devices.prepare_pod(pod)


async def test_checkpoint_is_on_disk_soon_after_an_allocation(make_devices, context, clock, tmp_path):
    devices = await started(make_devices(FakeDeviceProvider()))
    loop, pod = asyncio.create_task(devices.run()), requesting("web")
    file, synced = (tmp_path / "device-plugins" / name for name in ("kubelet_internal_checkpoint", SYNCED_FILE))
    await eventually(synced.exists)
    await admit(devices, context, pod)
    await devices.prepare_pod(pod)
    assert pod.uid in file.read_text()

    await clock.advance(1)  # The loop combines changes within a second.
    await eventually(lambda: pod.uid in synced.read_text())
    loop.cancel()


async def test_unhealthy_device_is_an_event_of_its_pod(make_devices, context):
    provider, pod = FakeDeviceProvider(), requesting("web")
    devices = await started(make_devices(provider))
    await admit(devices, context, pod)
    provider.set(ProvidedDevice("w0", healthy=False, message="overheated"), ProvidedDevice("w1"))
    await settle()

    (event,) = [event for event in context.recorder.events if event.reason == "DeviceUnhealthy"]
    assert event.note == "Device w0 of example.com/widget in container main is unhealthy: overheated"


async def test_pod_waits_for_devices_of_pods_that_are_not_known_yet(make_devices, context):
    before = await started(make_devices(FakeDeviceProvider(devices=["only"])))
    removed, static = requesting("removed"), requesting("static")
    await admit(before, context, removed)
    await before.prepare_pod(removed)
    del context.pods.pods[removed.uid]  # Deleted while the agent is stopped.

    context.pods.all_sources_ready = False
    devices = await started(make_devices(FakeDeviceProvider(devices=["only"])))
    assert await admit(devices, context, static) is None
    with pytest.raises(DevicesNotReady):
        await devices.prepare_pod(static)
    assert context.pods.kills == []

    context.pods.all_sources_ready = True
    devices.release_stale()
    await devices.prepare_pod(static)
    assert envs(devices, static) == "only"


async def test_waiting_pod_does_not_start_once_its_resource_is_removed(make_devices, context, clock):
    devices = await started(make_devices(wait_seconds=900))
    registration = devices.add(FakeDeviceProvider())
    await settle()
    registration.close()
    loop = asyncio.create_task(devices.run())
    pod, later = requesting("web"), requesting("later")
    await admit(devices, context, pod)
    with pytest.raises(DevicesNotReady, match="waiting for device plugins"):
        await devices.prepare_pod(pod)
    await clock.advance(301)

    with pytest.raises(DevicesNotReady, match="cannot allocate unregistered device"):
        await devices.prepare_pod(pod)
    assert [kill.uid for kill in context.pods.kills] == [pod.uid]
    assert (await admit(devices, context, later)).reason == "UnexpectedAdmissionError"
    loop.cancel()
    await settle()


async def test_devices_of_a_rejected_pod_are_released_by_the_loop(make_devices, context, clock):
    devices = await started(make_devices(FakeDeviceProvider(devices=["only"])))
    loop = asyncio.create_task(devices.run())
    pod = requesting("web")
    context.pods.add(pod, PodStatus(phase="Pending"))
    context.pods.ended.add(pod.uid)
    await devices.nodeagent_admit_pod(pod, [])
    await clock.advance(30)
    assert devices.decided(pod.uid) == {WIDGET}

    context.pods.add(pod, PodStatus(phase="Failed"))  # Another plugin has rejected it.
    await clock.advance(30)

    assert devices.decided(pod.uid) == set()
    loop.cancel()
    await settle()


async def test_container_is_not_created_before_the_checkpoint_is_written(make_devices, context, tmp_path):
    devices = await started(make_devices(FakeDeviceProvider()))
    pod = requesting("web")
    await admit(devices, context, pod)
    directory = tmp_path / "device-plugins"
    if directory.exists():
        shutil.rmtree(directory)
    directory.write_text("not a directory")
    for _ in range(2):
        with pytest.raises(DevicesNotReady, match="failed to write checkpoint file"):
            await devices.prepare_pod(pod)

    directory.unlink()
    await devices.prepare_pod(pod)
    assert (directory / "kubelet_internal_checkpoint").exists()


async def test_file_of_the_kubelet_is_adopted(make_devices, context, tmp_path):
    entry = {
        "PodUID": "bf52b2cd-b611-4e79-86b1-280b283185c3",
        "ContainerName": "check",
        "ResourceName": "nvidia.com/gpu",
        "DeviceIDs": {"-1": ["tegra"]},
        "AllocResp": "Ch8KFk5WSURJQV9WSVNJQkxFX0RFVklDRVMSBXRlZ3Jh",
    }
    data = {"PodDeviceEntries": [entry], "RegisteredDevices": {"nvidia.com/gpu": ["tegra"]}}
    file = tmp_path / "device-plugins/kubelet_internal_checkpoint"
    file.parent.mkdir()
    file.write_text(json.dumps({"Data": data, "Checksum": 3660592824}))
    limits = {"limits": {"nvidia.com/gpu": "1"}}
    pod = make_pod("gpu", uid=entry["PodUID"], containers=[make_container("check", resources=limits)])

    devices = await started(make_devices())
    assert await admit(devices, context, pod) is None
    await devices.prepare_pod(pod)
    await devices._save()

    response = devices.container_response(pod, pod.spec.containers[0])
    assert response.envs == {"NVIDIA_VISIBLE_DEVICES": "tegra"}
    assert response.annotations == {"io.kubernetes.container.devices": '{"nvidia.com/gpu":["tegra"]}'}
    assert json.loads(file.read_text())["Data"]["PodDeviceEntries"] == [entry]


async def test_resources_name_their_provider_while_they_have_one(make_devices):
    devices = await started(make_devices(FakeDeviceProvider(), expected=["example.com/late"]))
    assert [(each.name, each.plugin, each.connected) for each in devices.resources()] == [
        ("example.com/late", "", False),
        (WIDGET, f"fake {WIDGET}", True),
    ]


async def test_disconnection_is_logged_once_per_error(make_devices, clock, caplog):
    failures = ["refused", "refused", "timed out"]

    class Broken(FakeDeviceProvider):
        async def watch(self, publish):
            raise DeviceError(failures.pop(0) if failures else "timed out")

    await started(make_devices(Broken()))
    for _ in range(6):
        await clock.advance(30)

    errors = [record.err for record in caplog.records if "ListAndWatch ended" in record.message]
    assert errors == ["refused", "timed out"]


async def test_pod_waits_for_a_provider_that_disconnects_during_an_allocation(make_devices, context):
    first, second = FakeDeviceProvider(), FakeDeviceProvider("example.com/other")
    first.hang("allocate")
    devices = await started(make_devices(first, second))
    limits = {"limits": {WIDGET: "1", "example.com/other": "1"}}
    pod = make_pod("web", containers=[make_container("main", resources=limits)])
    assert await admit(devices, context, pod) is None
    preparing = asyncio.create_task(devices.prepare_pod(pod))
    await settle()
    devices.reservations.resources["example.com/other"].disconnect(0, "gone")
    first.recover()

    with pytest.raises(DevicesNotReady, match=r"device plugin of example.com/other is not connected"):
        await preparing
