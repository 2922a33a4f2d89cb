"""Tests for the execution of steps: requests of users, and the start and end of faults."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from apiserver_stub.simulation.actions import Actions
from apiserver_stub.simulation.client import Lost, Response
from apiserver_stub.simulation.kubelet import FAILING_IMAGE
from apiserver_stub.simulation.network import Network, ServerLoop
from apiserver_stub.simulation.steps import make_steps
from nodeagent.base.simulation.steps import Step
from tests.unit.apiserver_stub.simulation.stored import Trace

APPS = "/apis/apps/v1/namespaces/ns"


class Requests:
    def __init__(self) -> None:
        self.sent: list[tuple[str, str, Any]] = []
        self.codes: dict[str, int] = {}
        self.error: Exception | None = None
        self.pods: list[str] = []

    async def send(self, method: str, path: str, body: Any = None, _content_type: str = "") -> Response:
        self.sent.append((method, path, body))
        if self.error is not None:
            raise self.error
        return Response(self.codes.get(method, 200), {}, msgspec.json.encode({}))

    def keys(self, collection: str) -> list[str]:
        assert collection == "core/pods"
        return self.pods


class Part:
    """Reflector or steps of another subject."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def calm(self) -> None:
        self.calls.append("calm")

    def pause(self) -> None:
        self.calls.append("pause")

    def resume(self) -> None:
        self.calls.append("resume")

    def set_load(self, load: int) -> None:
        self.calls.append(f"load {load}")


class Harness:
    def __init__(self, loop: ServerLoop) -> None:
        self.loop, self.network, self.requests = loop, Network(1, loop), Requests()
        self.disturbed: list[float] = []
        self.crashes: list[bool] = []
        self.stops = 0
        self.store = self
        self.full = False
        self.crashes_in: tuple[int | None, bool] = None, False
        self.clock = SimpleNamespace(offset_seconds=0.0)
        self.trace = Trace()
        self.reflector, self.more = Part(), Part()
        self.nodes = [SimpleNamespace(stopped=False), SimpleNamespace(stopped=False)]
        made: Any = Actions
        self.actions: Actions = made(self, self.requests, [self.more], [self.reflector], self.nodes)

    def disturb(self, seconds: float) -> None:
        self.disturbed.append(seconds)

    def crash(self, *, power: bool = False) -> None:
        self.crashes.append(power)

    def stop(self) -> None:
        self.stops += 1

    def set_full(self, *, full: bool) -> None:
        self.full = full

    def crash_in(self, writes: int | None, *, tears: bool = False) -> None:
        self.crashes_in = writes, tears

    def execute(self, kind: str, arguments: Any = None, /, **more: Any) -> list[tuple[str, str, Any]]:
        """Execute a step and return the requests."""

        async def run() -> None:
            self.actions.execute(Step(1.0, kind, {**(arguments or {}), **more}))
            await asyncio.sleep(1.0)

        self.requests.sent.clear()
        self.loop.run_until_complete(run())
        return self.requests.sent

    def wait(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))


@pytest.fixture
def harness() -> Iterator[Harness]:
    loop = ServerLoop(1)
    asyncio.set_event_loop(loop)
    yield Harness(loop)
    asyncio.set_event_loop(None)
    loop.close()


# --- steps


@pytest.mark.parametrize(
    ("kind", "arguments", "disturbed"),
    [
        ("delete_custom_kind", {}, []),
        ("stop", {}, [300.0]),
        ("slow_disk", {"factor": 10, "seconds": 7.0}, [307.0]),
        ("crash", {"after": 3}, [300.0]),
    ],
)
def test_faults_and_stops_disturb_the_server(
    harness: Harness, kind: str, arguments: Any, disturbed: list[float]
) -> None:
    harness.execute(kind, arguments)

    assert (harness.disturbed, dict(harness.actions.executed)) == (disturbed, {kind: 1})
    assert [entry[0] for entry in harness.trace.entries] == ["step"]


def test_step_is_executed_by_the_part_that_has_it(harness: Harness) -> None:
    harness.execute("set_load", load=7)
    assert harness.more.calls == ["load 7"]

    assert harness.execute("delete_volume", number=1) == [("DELETE", "/api/v1/persistentvolumes/volume-1", None)]


def test_loss_is_expected_and_other_errors_are_reported(harness: Harness) -> None:
    harness.requests.error = Lost("closed")
    harness.execute("delete_custom_kind")
    assert harness.actions.errors() == []

    async def found() -> list[BaseException]:
        harness.requests.error = KeyError("x")
        harness.actions.execute(Step(1.0, "delete_custom_kind", {}))
        assert harness.actions.errors() == [], "the step is in progress"
        (task,) = harness.actions._tasks
        await asyncio.wait([task])
        return [] if task.exception() is None else [task.exception() or KeyError()]

    assert [str(error) for error in harness.loop.run_until_complete(found())] == ["'x'"]


def test_each_kind_of_step_has_a_function() -> None:
    from apiserver_stub.simulation.admission_requests import AdmissionRequests
    from apiserver_stub.simulation.autoscaling import AutoscalingRequests
    from apiserver_stub.simulation.conversion import ConversionRequests
    from apiserver_stub.simulation.requests import Requests as MapRequests
    from apiserver_stub.simulation.workload_requests import WorkloadRequests

    owners = (Actions, WorkloadRequests, AdmissionRequests, AutoscalingRequests, ConversionRequests, MapRequests)
    kinds = {step.kind for seed in range(3) for step in make_steps(seed, 10)}

    assert all(any(hasattr(owner, kind) for owner in owners) for kind in kinds)


# --- requests


@pytest.mark.parametrize(("quota", "code", "created"), [(True, 201, True), (True, 409, False), (False, 201, False)])
def test_new_namespace_has_its_quota(harness: Harness, quota: bool, code: int, created: bool) -> None:
    harness.requests.codes["POST"] = code

    sent = harness.execute("create_namespace", namespace="ns", quota=quota)

    assert [path for _, path, _ in sent] == [
        "/api/v1/namespaces",
        *(["/api/v1/namespaces/ns/resourcequotas"] if created else []),
    ]


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize(
    ("kind", "arguments", "path", "change"),
    [
        ("apply_deployment", {"name": "d", "count": 3}, f"{APPS}/deployments/d", {"spec": {"replicas": 3}}),
        (
            "apply_cron_job",
            {"policy": "Forbid", "suspend": True},
            "/apis/batch/v1/namespaces/ns/cronjobs/forbid",
            {"spec": {"suspend": True}},
        ),
    ],
)
def test_workload_that_exists_is_changed(
    harness: Harness, exists: bool, kind: str, arguments: Any, path: str, change: Any
) -> None:
    harness.requests.codes["POST"] = 409 if exists else 201

    created, *changed = harness.execute(kind, arguments, namespace="ns")

    assert created[:2] == ("POST", path.rpartition("/")[0])
    assert changed == ([("PATCH", path, change)] if exists else [])


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize(("kind", "replicas"), [("statefulsets", 3), ("daemonsets", None)])
def test_set_is_scaled_if_its_kind_has_replicas(
    harness: Harness, exists: bool, kind: str, replicas: int | None
) -> None:
    harness.requests.codes["POST"] = 409 if exists else 201

    created, *changed = harness.execute("apply_set", {"kind": kind}, namespace="ns", count=3, version=1)

    assert [each[:2] for each in changed] == ([("PATCH", f"{APPS}/{kind}/set")] if exists else [])
    spec = (changed[0] if exists else created)[2]["spec"]
    assert spec.get("replicas") == replicas
    assert spec["template"]["spec"]["containers"][0]["image"] == "example/image:1"
    assert ("selector" in spec, "serviceName" in spec) == (not exists, not exists and replicas is not None)


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_job_that_exists_is_deleted(harness: Harness, exists: bool, fails: bool) -> None:
    harness.requests.codes["POST"] = 409 if exists else 201

    created, *deleted = harness.execute("create_job", namespace="ns", name="j", count=2, fails=fails)

    image = created[2]["spec"]["template"]["spec"]["containers"][0]["image"]
    assert (image == FAILING_IMAGE) is fails
    path = "/apis/batch/v1/namespaces/ns/jobs/job-j?propagationPolicy=Background"
    assert deleted == ([("DELETE", path, None)] if exists else [])


def test_one_of_the_pods_is_evicted(harness: Harness) -> None:
    assert harness.execute("evict_pod", which=3) == []

    harness.requests.pods = ["ns/b", "ns/a"]
    (sent,) = harness.execute("evict_pod", which=3)

    assert sent[:2] == ("POST", "/api/v1/namespaces/ns/pods/b/eviction")


@pytest.mark.parametrize(("volume", "name"), [(None, None), (0, "volume-0"), (2, "volume-2")])
def test_claim_is_for_one_volume_or_any(harness: Harness, volume: int | None, name: str | None) -> None:
    (sent,) = harness.execute("create_claim", namespace="ns", name="c", volume=volume)

    assert sent[2]["spec"].get("volumeName") == name


def test_pod_uses_the_claim_of_its_name(harness: Harness) -> None:
    (sent,) = harness.execute("create_claim_pod", namespace="ns", name="c")
    assert sent[2]["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]

    (sent,) = harness.execute("create_job", namespace="ns", name="j", count=2)
    assert "volumes" not in sent[2]["spec"]["template"]["spec"]


# --- faults


def test_server_crashes_after_a_number_of_callbacks(harness: Harness) -> None:
    for kind, power in (("crash", False), ("lose_power", True)):
        harness.execute(kind, after=10**6)
        assert harness.loop.crash_at == 10**6 + 1
        harness.loop.on_crash()
        assert harness.crashes.pop() is power

    for tears in (True, False):
        harness.execute("crash_in_write", after=5, tears=tears)
        assert harness.crashes_in == (5, tears)
        harness.loop.on_crash()
        assert harness.crashes.pop() is tears


@pytest.mark.parametrize(
    ("kind", "arguments", "state"),
    [
        ("fill_disk", {}, lambda it: it.full),
        ("slow_disk", {"factor": 10}, lambda it: it.loop.thread_factor == 10),
        ("lose_segments", {"probability": 0.2}, lambda it: it.network.loss == 0.2),
        ("slow_network", {"factor": 10}, lambda it: it.network.latency.factor == 10),
        ("stop_node", {"which": 3}, lambda it: it.nodes[1].stopped and not it.nodes[0].stopped),
        ("pause_watch", {}, lambda it: it.reflector.calls == ["pause"]),
    ],
)
@pytest.mark.parametrize("by", ["time", "calm"])
def test_fault_ends_after_its_time_or_when_all_end(
    harness: Harness, kind: str, arguments: Any, state: Any, by: str
) -> None:
    assert not state(harness)
    harness.execute(kind, {**arguments, "seconds": 20.0})
    assert state(harness)
    harness.wait(10.0)
    assert state(harness)

    if by == "calm":
        harness.actions.calm()
    else:
        harness.wait(11.0)

    assert not state(harness)


def test_end_of_all_faults_includes_planned_crashes_and_other_parts(harness: Harness) -> None:
    harness.execute("crash", after=10**6)
    harness.execute("crash_in_write", after=5, tears=True)

    harness.actions.calm()

    assert (harness.loop.crash_at, harness.crashes_in) == (None, (None, False))
    assert (harness.more.calls, harness.reflector.calls) == (["calm"], ["resume"])


def test_clock_and_process_of_the_server_change(harness: Harness) -> None:
    harness.execute("jump_clock", seconds=-60)
    harness.execute("jump_clock", seconds=1)
    harness.execute("stop")
    harness.execute("cut_connection", which=3)

    assert (harness.clock.offset_seconds, harness.stops) == (-59, 1)
