"""Tests for the steps of a simulation on a node whose agent is not running."""

from __future__ import annotations

import asyncio
import json
from contextvars import Context
from types import SimpleNamespace

import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.base.simulation.loop import PROCESS, SimulatedLoop
from nodeagent.base.simulation.steps import Step
from nodeagent.simulation.actions import Actions
from nodeagent.simulation.apiserver import CONFIG_MAPS, PODS
from nodeagent.simulation.invariants import Invariants
from nodeagent.simulation.node import MAX_PIDS, NAMESPACE, Node


class Harness:
    """A node whose agent is not running, and steps on it."""

    def __init__(self, loop, directory, **options):
        self.loop, self.node = loop, Node(1, loop, directory, {}, **options)
        self.invariants = Invariants(self.node)
        self.actions = Actions(1, self.node, self.invariants)
        self.runtime = self.node.runtime

    def step(self, kind, **arguments):
        """Execute a step; return whether it had an effect."""
        before = self.actions.executed[kind]
        self.actions.execute(Step(self.loop.time(), kind, arguments))
        return self.actions.executed[kind] > before

    def create(self, name="pod-0", **shape):
        return self.step("create_pod", name=name, **{"policy": "Always", **shape})

    def pod(self, name="pod-0"):
        return self.node.server.find(PODS, NAMESPACE, name)

    def run(self, seconds):
        self.loop.run_until_complete(asyncio.sleep(seconds))

    def start(self, uid="a", name="web"):
        """Start a container in a new sandbox."""
        metadata = cri.PodSandboxMetadata(name=uid, uid=uid, attempt=len(self.runtime.sandboxes))
        sandbox = self._call("RunPodSandbox", config=cri.PodSandboxConfig(metadata=metadata)).pod_sandbox_id
        return self.add(sandbox, name)

    def add(self, sandbox, name):
        self.runtime.add_image("app:1")
        config = cri.ContainerConfig(metadata=cri.ContainerMetadata(name=name), image=cri.ImageSpec(image="app:1"))
        number = self._call("CreateContainer", pod_sandbox_id=sandbox, config=config).container_id
        self._call("StartContainer", container_id=number)
        return self.runtime.containers[number]

    def _call(self, name, **fields):
        request = getattr(cri, f"{name}Request")(**fields)
        result = self.loop.run_until_complete(self.runtime.handle(name, request))
        return getattr(cri, f"{name}Response").FromString(result)


@pytest.fixture
def make(tmp_path):
    loop = SimulatedLoop(1)
    asyncio.set_event_loop(loop)
    yield lambda **options: Harness(loop, tmp_path, **options)
    asyncio.set_event_loop(None)
    loop.close()


@pytest.fixture
def harness(make):
    harness = make()
    harness.runtime.observer = _Silent()
    return harness


class _Silent:
    """Observer that verifies nothing, as the containers belong to no pods of the agent."""

    def __getattr__(self, _name):
        return lambda *_arguments: None


def test_pod_is_created_once_per_name(harness):
    assert harness.create() and not harness.create()
    assert harness.pod()["metadata"]["uid"].startswith("pod-0-")


@pytest.mark.parametrize("is_latest", [True, False])
def test_restart_rules_require_the_latest_release(harness, is_latest):
    harness.node.is_latest = is_latest
    harness.create(rule="Restart")
    assert ("restartPolicyRules" in harness.pod()["spec"]["containers"][0]) is is_latest


@pytest.mark.parametrize(
    ("grace", "own", "is_forced"), [(0, 30, True), (None, 0, True), (None, 30, False), (1, 0, False)]
)
def test_immediate_deletion_is_recorded(harness, grace, own, is_forced):
    harness.create(grace=own)
    uid = harness.pod()["metadata"]["uid"]
    assert harness.step("delete_pod", name="pod-0", grace=grace)
    assert (uid in harness.invariants.forced) is is_forced
    assert (harness.pod() is None) is is_forced
    assert not harness.step("delete_pod", name="missing", grace=0)


def test_images_of_pods_are_changed_except_for_static_ones(harness):
    assert not harness.step("change_image", which=7, code=0)
    harness.create("static-0")
    assert not harness.step("change_image", which=7, code=0)
    harness.create()
    assert harness.step("change_image", which=7, code=0)
    assert harness.pod()["spec"]["containers"][0]["image"] == "registry.test/app:2"


@pytest.mark.parametrize("is_latest", [True, False])
def test_pods_with_limits_are_resized_in_the_latest_release(harness, is_latest):
    harness.node.is_latest = is_latest
    harness.create("plain")
    assert not harness.step("resize_pod", which=0, cpu=200)
    harness.create(cpu=100)
    assert harness.step("resize_pod", which=0, cpu=200) is is_latest
    limits = harness.pod()["spec"]["containers"][0]["resources"]["limits"]
    assert limits["cpu"] == ("200m" if is_latest else "100m")


def test_static_pods_are_files(harness):
    assert not harness.step("remove_static", name="static-0", version=1)
    harness.step("put_static", name="static-0", version=3)
    file = harness.node.manifests / "static-0.json"
    assert json.loads(file.read_text())["spec"]["containers"][0]["image"] == "registry.test/app:3"
    assert harness.step("remove_static", name="static-0", version=1) and not file.exists()


def test_config_maps_are_created_changed_and_deleted(harness):
    def data():
        found = harness.node.server.find(CONFIG_MAPS, NAMESPACE, "map-0")
        return found and found["data"]

    harness.step("put_map", name="map-0", value=1)
    first = data()
    harness.step("put_map", name="map-0", value=2)
    assert first and data() != first
    assert harness.step("delete_map", name="map-0") and data() is None
    assert not harness.step("delete_map", name="map-0")


def test_pod_has_at_most_two_debuggers(harness):
    assert not harness.step("debug_pod", which=0, runs=5)
    harness.create("static-0")
    assert not harness.step("debug_pod", which=0, runs=5)
    harness.create()
    assert [harness.step("debug_pod", which=0, runs=5) for _ in range(3)] == [True, True, False]
    assert [each["name"] for each in harness.pod()["spec"]["ephemeralContainers"]] == ["debug-0", "debug-1"]


@pytest.mark.parametrize("kind", ["exit_container", "end_sandbox"])
def test_containers_end(harness, kind):
    assert not harness.step(kind, which=0, code=3)
    first, other = harness.start("a"), harness.start("b")
    more = harness.add(first.sandbox.id, "more")
    assert harness.step(kind, which=0, code=3)
    ends_sandbox = kind == "end_sandbox"
    assert [each.running for each in (first, more, other)] == [False, not ends_sandbox, True]
    assert first.exit_code == (137 if ends_sandbox else 3)
    assert [each.sandbox.ready for each in (first, other)] == [not ends_sandbox, True]


def test_probes_of_a_container_fail(harness):
    assert not harness.step("break_container", which=0)
    container = harness.start()
    assert harness.step("break_container", which=3) and container.broken


@pytest.mark.parametrize("kind", ["misreport_sandbox", "misreport_container"])
def test_states_are_misreported_for_some_time(harness, kind):
    assert not harness.step(kind, which=0, seconds=10)
    container = harness.start()
    started = harness.loop.time()
    assert harness.step(kind, which=0, seconds=10)

    def misreported():
        return container.sandbox.misreported if kind == "misreport_sandbox" else container.misreported

    assert misreported() and harness.invariants.delays[-1] == (started, started + 10)
    assert container.was_misreported is (kind == "misreport_container")
    harness.run(11)
    assert not misreported()


def test_unused_images_are_removed(harness):
    harness.start()
    harness.step("pull_images", first=7, count=2)
    assert set(harness.runtime.images) == {"app:1", "registry.test/other:7", "registry.test/other:0"}
    harness.step("remove_images")
    assert set(harness.runtime.images) == {"app:1"}


FAULTS = [
    ("stop_api", {}, lambda node: node.network.down),
    ("silence_api", {}, lambda node: node.network.silent),
    ("reject_requests", {"code": 500, "probability": 0.5}, lambda node: bool(node.network.rejections)),
    ("lose_responses", {"probability": 0.5}, lambda node: node.network.lost > 0),
    ("duplicate_events", {"probability": 0.5}, lambda node: node.network.duplicated > 0),
    ("slow_api", {"factor": 9.0}, lambda node: node.network.latency.factor > 1),
    ("expire_certificate", {}, lambda node: bool(node.network.certificate_error)),
    ("stop_runtime", {}, lambda node: node.runtime.down),
    ("hang_runtime", {"call": "Status"}, lambda node: bool(node.runtime.hanging)),
    ("fail_runtime", {"call": "Status", "probability": 0.5}, lambda node: bool(node.runtime.failing)),
    ("disturb_images", {"call": "PullImage", "hangs": True}, lambda node: bool(node.runtime.hanging)),
    ("disturb_images", {"call": "PullImage", "hangs": False}, lambda node: bool(node.runtime.failing)),
    ("slow_runtime", {"factor": 9.0}, lambda node: node.runtime_latency.factor > 1),
    ("lose_network", {}, lambda node: not node.runtime.network_ready),
    ("fill_disk", {}, lambda node: node.disk.full),
    ("slow_disk", {"factor": 9.0}, lambda node: node.loop.thread_factor > 1),
    ("lose_bus", {}, lambda node: node.logind.down),
    ("disturb_plugin", {"hangs": True}, lambda node: node.unruly.hangs and not node.unruly.raises),
    ("disturb_plugin", {"hangs": False}, lambda node: node.unruly.raises and not node.unruly.hangs),
]


@pytest.mark.parametrize(("kind", "arguments", "is_faulty"), FAULTS)
@pytest.mark.parametrize("is_calmed", [True, False])
def test_fault_lasts_for_some_time(harness, kind, arguments, is_faulty, is_calmed):
    assert not is_faulty(harness.node)
    harness.step(kind, seconds=10, **arguments)
    harness.run(9)
    assert is_faulty(harness.node)
    if is_calmed:
        harness.actions.calm()
    else:
        harness.run(2)
    assert not is_faulty(harness.node)


@pytest.mark.parametrize("uncertain", [True, False])
def test_volume_driver_fails_for_some_time(harness, uncertain):
    driver = harness.node.driver
    harness.step("fail_driver", call="mount", uncertain=uncertain, seconds=10)

    def fails():
        try:
            harness.loop.run_until_complete(driver._pass("mount"))
        except Exception as error:
            return type(error).__name__
        return ""

    assert fails() == ("UncertainVolumeError" if uncertain else "VolumeError")
    harness.run(11)
    assert fails() == ""


def test_process_ids_are_exhausted_for_some_time(harness, monkeypatch):
    pressed, started = [], harness.loop.time()
    monkeypatch.setattr(harness.node, "host", SimpleNamespace(press=lambda **used: pressed.append(used["pids"])))
    harness.step("exhaust_pids", seconds=10)
    assert harness.invariants.pressures[-1] == (started, started + 10)
    assert pressed == [MAX_PIDS]
    harness.run(11)
    assert pressed == [MAX_PIDS, 0]


def test_clock_jumps(harness):
    for _ in range(2):
        harness.step("jump_clock", seconds=-5.0)
    assert harness.node.clock.offset_seconds == -10


def test_compacted_server_ends_the_watches(harness):
    watch = SimpleNamespace(queue=asyncio.Queue())
    harness.node.server.watches.append(watch)
    harness.step("compact")
    assert watch.queue.get_nowait() is None
    harness.node.server.watches.append(watch)
    harness.step("end_watches")
    assert watch.queue.get_nowait() is None


def test_missing_agent_neither_crashes_nor_stops(harness):
    assert not harness.step("crash_agent", after=1, restart=1.0)
    assert not harness.step("stop_agent", after=1, restart=1.0)
    assert not harness.step("suspend_agent", seconds=1.0)


@pytest.mark.parametrize("is_calmed", [True, False])
def test_suspended_agent_executes_nothing_for_some_time(harness, is_calmed):
    times, context = [], Context()
    context.run(PROCESS.set, 3)
    harness.node.process = 3
    started = harness.loop.time()
    harness.loop.call_later(5.0, lambda: times.append(harness.loop.time()), context=context)

    harness.step("suspend_agent", seconds=10.0)
    harness.run(9.0)
    assert (times, harness.invariants.delays) == ([], [(started, started + 10.0)])
    if is_calmed:
        harness.actions.calm()
        harness.run(0.5)
    else:
        harness.run(2.0)

    assert times == [started + (9.0 if is_calmed else 10.0)]
    harness.node.process = 0


def test_agent_starts_again_after_the_loss_of_power(harness, monkeypatch):
    starts = []
    monkeypatch.setattr(harness.node, "start", lambda: starts.append(harness.loop.time()))
    container = harness.start()
    started = harness.loop.time()
    harness.step("lose_power", after=0, restart=5.0)
    assert not container.running and not container.sandbox.ready
    harness.run(6)
    assert starts == [started + 5]
    harness.step("lose_power", after=0, restart=5.0)
    harness.node.process = 2
    harness.run(6)
    assert len(starts) == 1, "another process runs already"
    harness.node.process = 0


@pytest.mark.parametrize("cancelled_after", [0, 1.0])
def test_node_shuts_down_unless_that_is_cancelled(make, monkeypatch, cancelled_after):
    harness = make(shuts_down=True)
    harness.runtime.observer = _Silent()
    starts = []
    monkeypatch.setattr(harness.node, "start", lambda: starts.append(1))
    monkeypatch.setattr(harness.node.logind, "prepare", lambda power_off: _prepare(harness, power_off))
    monkeypatch.setattr(harness.node.logind, "cancel", lambda: harness.cancelled.append(harness.loop.time()))
    harness.cancelled, harness.permitted = [], True
    started = harness.loop.time()

    assert harness.step("shut_down", restart=5.0, cancelled_after=cancelled_after)
    harness.run(4)
    assert harness.cancelled == ([started + 1] if cancelled_after else [])
    assert harness.invariants.shutdowns == [started] and starts == []
    harness.run(4)
    assert starts == [1]
    harness.permitted = False
    assert not harness.step("shut_down", restart=5.0, cancelled_after=0)
    assert len(harness.invariants.shutdowns) == 1


def _prepare(harness, power_off):
    if harness.permitted:
        harness.loop.call_later(2, power_off, False)
    return harness.permitted


@pytest.mark.parametrize(("released", "restarted", "verified"), [(True, False, 1), (True, True, 0), (False, False, 0)])
def test_shutdown_is_verified_if_the_same_process_permitted_it(make, monkeypatch, released, restarted, verified):
    harness = make(shuts_down=True)
    harness.runtime.observer = _Silent()
    power_offs, verifications = [], []
    monkeypatch.setattr(harness.node, "start", lambda: None)
    monkeypatch.setattr(harness.node.logind, "prepare", lambda power_off: power_offs.append(power_off) or True)
    monkeypatch.setattr(harness.invariants, "verify_shut_down", verifications.append)
    harness.node.process = 1

    harness.step("shut_down", restart=5.0, cancelled_after=0)
    if restarted:
        harness.node.process = 2
    power_offs[0](released)

    assert len(verifications) == verified and harness.node.process == 0


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [("use_memory", {"available": 100}), ("use_disk", {"disk": "nodefs.available", "percent": 5})],
)
def test_resources_are_used_for_some_time(make, kind, arguments):
    harness = make(has_pressure=True)

    def available():
        node = harness.node
        return node.memory.available if kind == "use_memory" else node.disks.available("nodefs.available")

    before = available()
    harness.step(kind, seconds=10, **arguments)
    assert available() < before
    harness.run(11)
    assert available() == before


def test_pods_have_priorities_only_with_pressure(make):
    harness = make(has_pressure=True)
    for number in range(20):
        harness.create(f"pod-{number}")
    pods = [harness.pod(f"pod-{number}") for number in range(20)]
    assert len({pod["spec"].get("priority", 0) for pod in pods}) > 2
    assert len({pod["spec"]["containers"][0]["image"] for pod in pods}) > 2
