"""Tests for the pod status manager."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import msgspec
import pytest

from nodeagent import hookimpl
from nodeagent.base.release import NEWEST, OLDEST
from nodeagent.config.features import build_gates
from nodeagent.contracts.api import PODS
from nodeagent.contracts.devices import DeviceHealth
from nodeagent.contracts.probes import ProbeKind, ProbeResult
from nodeagent.errors import ApiError, ApiUnavailable
from nodeagent.model.pod import Container, PodCondition, PodIp
from nodeagent.model.wire import to_wire
from nodeagent.pluginmanager import PluginManager
from nodeagent.podworker.desired import is_static
from nodeagent.status.manager import (
    OVERWRITE_CHECK_SECONDS,
    PARALLEL_SENDS,
    RETRY_SECONDS,
    SYNC_DURATION,
    StatusManager,
)
from nodeagent.status.metrics import TERMINATED_CONTAINERS
from nodeagent.testing import FakeApi, FakeRuntime, eventually, make_container, make_pod


def total():
    return next(value for suffix, _, value, _ in SYNC_DURATION.family().rows if suffix == "_sum")


def make_manager(
    clock,
    api=None,
    trigger_sync=lambda uid: None,
    mirror_of=lambda pod: None,
    release=OLDEST,
    probes=None,
    device_health=lambda uid, container: {},
    plugins=None,
    **gates,
):
    return StatusManager(
        api=lambda: api,
        clock=clock,
        plugins=plugins or PluginManager(),
        probes=probes or (lambda container_id, kind: None),
        host_ips=lambda: ["10.0.0.1"],
        runtime_name=lambda: "fake",
        is_static=is_static,
        mirror_of=mirror_of,
        gates=build_gates(gates, release),
        trigger_sync=trigger_sync,
        device_health=device_health,
    )


@pytest.mark.parametrize(
    ("gates", "message"),
    [({}, "hot"), ({"ResourceHealthStatusMessage": False}, ""), ({"ResourceHealthStatus": False}, None)],
)
async def test_health_of_devices_is_reported(clock, gates, message):
    def health(uid, container):
        return {"example.com/widget": [DeviceHealth("w0", "Unhealthy", "hot")]} if container == "main" else {}

    if gates.get("ResourceHealthStatus") is False:
        gates = {**gates, "ResourceHealthStatusMessage": False}
    manager = make_manager(clock, release=NEWEST, device_health=health, **gates)
    runtime, pod = FakeRuntime(clock), make_pod("web", init_containers=["main-init"])
    runtime.start("main", pod)

    status = manager.update(pod, runtime.pod(pod.uid))

    (container,) = to_wire(status)["containerStatuses"]
    expected = {"resourceID": "w0", "health": "Unhealthy", **({"message": message} if message else {})}
    resources = None if message is None else [{"name": "example.com/widget", "resources": [expected]}]
    assert container.get("allocatedResourcesStatus") == resources


async def test_sync_duration_includes_api_server_outage(clock):
    api, runtime, pod = FakeApi(), FakeRuntime(clock), make_pod("web")
    await api.create(PODS, {"metadata": {"name": "web", "uid": pod.uid}}, "default")
    manager = make_manager(clock, api)
    runtime.start("main", pod)
    count, seconds = SYNC_DURATION.count(), total()
    api.fail("patch", ApiUnavailable("away"), times=1)
    sending = asyncio.create_task(manager.run())

    manager.update(pod, runtime.pod(pod.uid))
    await clock.settle()
    assert SYNC_DURATION.count() == count
    await clock.advance(20)
    await eventually(lambda: SYNC_DURATION.count() == count + 1)

    assert 0 < total() - seconds <= 20
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)


@asynccontextmanager
async def sending(manager):
    task = asyncio.create_task(manager.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_failed_patches_do_not_delay_the_status_of_another_pod(clock):
    api, runtime = FakeApi(), FakeRuntime(clock)
    manager = make_manager(clock, api)
    failing = [make_pod(f"web-{n}") for n in range(PARALLEL_SENDS)]
    api.fail("patch", ApiUnavailable("away"), times=PARALLEL_SENDS)

    async with sending(manager):
        for pod in failing:
            manager.update(pod, runtime.pod(pod.uid))
        await clock.settle()
        manager.update(make_pod("other"), None)
        await clock.settle()

    assert [call.name for call in api.made("patch")][PARALLEL_SENDS:] == ["other"]


@pytest.mark.parametrize(
    ("code", "attempts"), [(401, 2), (403, 2), (409, 2), (429, 2), (500, 2), (400, 1), (413, 1), (422, 1)]
)
async def test_rejected_status_is_sent_again_unless_it_is_invalid(clock, code, attempts):
    api, pod = FakeApi(), make_pod("web")
    manager = make_manager(clock, api)
    api.fail("patch", ApiError("rejected", code=code), times=1)

    async with sending(manager):
        manager.update(pod, None)
        await clock.settle()
        await clock.advance(20)

    assert len(api.made("patch")) == attempts


async def test_termination_of_a_container_is_counted_once(clock):
    runtime, pod = FakeRuntime(clock), make_pod("web")
    manager = make_manager(clock, FakeApi())
    before = TERMINATED_CONTAINERS.value("container", "1", "Error")
    container = runtime.start("main", pod)
    manager.update(pod, runtime.pod(pod.uid))
    runtime.exit(container, 1)

    for _ in range(2):
        manager.update(pod, runtime.pod(pod.uid))

    assert TERMINATED_CONTAINERS.value("container", "1", "Error") == before + 1


async def test_newer_status_is_sent_before_the_retry_of_a_failed_one(clock):
    api, runtime, pod = FakeApi(), FakeRuntime(clock), make_pod("web")
    manager = make_manager(clock, api)
    container = runtime.start("main", pod)

    async with sending(manager):
        api.fail("patch", ApiUnavailable("away"))
        manager.update(pod, runtime.pod(pod.uid))
        await clock.settle()
        runtime.exit(container, 1)
        manager.update(pod, runtime.pod(pod.uid))
        await clock.settle()
        last = api.made("patch")[-1].body["status"]["containerStatuses"][0]
        await clock.advance(60)

    assert last["state"]["terminated"]["exitCode"] == 1
    assert len(api.made("patch")) == 2


async def test_unaccepted_status_is_sent_again_at_least_every_ten_seconds(clock):
    api, runtime, pod = FakeApi(), FakeRuntime(clock), make_pod("web")
    manager = make_manager(clock, api)
    api.fail("patch", ApiUnavailable("away"), times=None)

    async with sending(manager):
        manager.update(pod, runtime.pod(pod.uid))
        await clock.advance(300)
        before = len(api.made("patch"))
        await clock.advance(1.1 * RETRY_SECONDS)

    assert RETRY_SECONDS == 10
    assert len(api.made("patch")) > before


async def test_flush_waits_for_the_retry_of_a_failed_patch(clock):
    api, runtime, pod = FakeApi(), FakeRuntime(clock), make_pod("web")
    manager = make_manager(clock, api)
    api.fail("patch", ApiUnavailable("away"))

    async with sending(manager):
        manager.update(pod, runtime.pod(pod.uid))
        await clock.settle()
        flushing = asyncio.create_task(manager.flush(60))
        await clock.settle()
        before = flushing.done()
        await clock.advance(1)

    assert (before, flushing.done()) == (False, True)


def with_condition(pod, kind, state):
    others = [c for c in pod.status.conditions or () if c.type != kind]
    conditions = [*others, PodCondition(type=kind, status=state)]
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, conditions=conditions))


async def test_readiness_overwritten_by_control_plane_is_sent_again(clock):
    api, runtime, pod = FakeApi(), FakeRuntime(clock), make_pod("web")
    await api.create(PODS, {"metadata": {"name": "web", "uid": pod.uid}}, "default")
    triggered = []
    manager = make_manager(clock, api, triggered.append)
    runtime.start("main", pod)
    sending = asyncio.create_task(manager.run())
    status = manager.update(pod, runtime.pod(pod.uid))
    await clock.settle()
    ours = msgspec.structs.replace(pod, status=status)

    manager.record_api_status(ours)
    await clock.advance(OVERWRITE_CHECK_SECONDS)
    assert triggered == []  # Equal to the sent status.
    lost = with_condition(ours, "Ready", "False")
    manager.record_api_status(lost)
    await clock.advance(OVERWRITE_CHECK_SECONDS - 1)
    assert triggered == []  # older news may still be on their way
    await clock.advance(1)
    assert triggered == [pod.uid]
    manager.update(lost, runtime.pod(pod.uid))
    await eventually(lambda: len(api.made("patch")) == 2)

    assert {c["type"]: c["status"] for c in api.made("patch")[1].body["status"]["conditions"]} == {"Ready": "True"}
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)


async def test_job_is_not_reported_finished_while_sidecar_runs(clock):
    sidecar = Container(name="proxy", image="proxy:1", restart_policy="Always")
    pod, runtime = make_pod("job", init_containers=[sidecar], restart_policy="Never"), FakeRuntime(clock)
    manager = make_manager(clock)
    proxy, main = runtime.start("proxy", pod), runtime.start("main", pod)
    manager.update(pod, runtime.pod(pod.uid))
    runtime.exit(main, 0)

    assert (
        manager.update(pod, runtime.pod(pod.uid)).phase == "Succeeded"
    )  # Lets the worker terminate the other containers.
    assert manager.get(pod.uid).phase == "Running"
    runtime.exit(proxy, 143)
    manager.update(pod, runtime.pod(pod.uid))
    assert manager.get(pod.uid).phase == "Succeeded"


@pytest.mark.parametrize("shown_first", [False, True])
async def test_static_pod_keeps_times_across_agent_restart(clock, shown_first):
    pod, runtime, mirrors = make_pod("web", annotations={"kubernetes.io/config.source": "file"}), FakeRuntime(clock), []
    runtime.start("main", pod)
    before = make_manager(clock).update(pod, runtime.pod(pod.uid))
    await clock.advance(100)
    manager = make_manager(clock, mirror_of=lambda _: mirrors[0] if mirrors else None)
    if not shown_first:
        assert manager.update(pod, runtime.pod(pod.uid)).start_time != before.start_time

    mirrors.append(make_pod("web", status=before))
    manager.mirror_appeared(pod.uid, mirrors[0])
    after = manager.update(pod, runtime.pod(pod.uid))

    assert (after.start_time, after.conditions) == (before.start_time, before.conditions)


async def test_mirror_pod_from_before_a_restart_is_updated_only_after_a_sync(clock):
    probe = {"exec": {"command": ["check"]}}
    pod = make_pod(
        "web", annotations={"kubernetes.io/config.source": "file"}, containers=[make_container(startup_probe=probe)]
    )
    runtime, mirrors, results, triggered = FakeRuntime(clock), [], {ProbeKind.STARTUP: ProbeResult.SUCCESS}, []
    runtime.start("main", pod)
    api = FakeApi()
    known = {"probes": lambda _id, kind: results.get(kind), "mirror_of": lambda _: mirrors[0] if mirrors else None}
    before = make_manager(clock, **known).update(pod, runtime.pod(pod.uid))
    results[ProbeKind.STARTUP] = ProbeResult.UNKNOWN
    manager = make_manager(clock, api, trigger_sync=triggered.append, **known)
    async with sending(manager):
        manager.update(pod, runtime.pod(pod.uid))

        mirrors.append(make_pod("web", status=before))
        manager.mirror_appeared(pod.uid, mirrors[0])
        await clock.settle()
        sent_before_the_sync = list(api.requests)
        results[ProbeKind.STARTUP] = ProbeResult.SUCCESS
        after = manager.update(pod, runtime.pod(pod.uid))
        await clock.settle()

    assert (sent_before_the_sync, triggered) == ([], [pod.uid])
    assert before.container_statuses[0].started is after.container_statuses[0].started is True
    assert manager.reported(pod) == before


async def test_readiness_gate_change_triggers_pod_sync(clock):
    pod, triggered = make_pod("web", readiness_gates=[{"conditionType": "example.com/ok"}]), []
    manager = make_manager(clock, trigger_sync=triggered.append)
    manager.update(pod, None)

    manager.record_api_status(with_condition(pod, "example.com/other", "True"))
    assert triggered == []
    manager.record_api_status(with_condition(pod, "example.com/ok", "True"))

    assert triggered == [pod.uid]


@pytest.mark.parametrize(
    ("gate", "type_"),
    [
        pytest.param(gate, type_, marks=pytest.mark.row(f"gate.{gate}"))
        for gate, type_ in (
            ("PodReadyToStartContainersCondition", "PodReadyToStartContainers"),
            ("PodDisruptionConditions", "DisruptionTarget"),
        )
    ],
)
async def test_feature_gated_conditions_are_reported_unless_disabled(clock, gate, type_):
    runtime, pod = FakeRuntime(clock), make_pod("web")
    runtime.start("main", pod)

    shown = []
    for gates in ({}, {gate: False}):
        manager = make_manager(clock, **gates)
        manager.update(pod, runtime.pod(pod.uid))
        status = manager.update(pod, runtime.pod(pod.uid), failed=("Evicted", "no room"), disrupted="no room")
        shown.append(type_ in [condition.type for condition in status.conditions])

    assert shown == [True, False]


@pytest.mark.row("gate.PodHostIPs")
def test_host_addresses_are_reported_unless_their_gate_is_disabled(clock):
    runtime, pod = FakeRuntime(clock), make_pod("web")

    shown = [
        make_manager(clock, **gates).update(pod, runtime.pod(pod.uid)).host_ips for gates in ({}, {"PodHostIPs": False})
    ]

    assert shown == [[PodIp(ip="10.0.0.1")], None]


@pytest.mark.parametrize(("release", "observed"), [(OLDEST, None), (NEWEST, 4)])
async def test_observed_generation_is_reported_since_release_34(clock, release, observed):
    api, runtime = FakeApi(), FakeRuntime(clock)
    pod = make_pod("web", metadata={"generation": 4})
    await api.create(PODS, {"metadata": {"name": "web", "uid": pod.uid}}, "default")
    manager = make_manager(clock, api, release=release)
    runtime.start("main", pod)
    sending = asyncio.create_task(manager.run())

    manager.update(pod, runtime.pod(pod.uid))
    await clock.settle()

    status = api.find(PODS, "web")["status"]
    assert status.get("observedGeneration") == observed
    assert {condition.get("observedGeneration") for condition in status["conditions"]} == {observed}
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)


async def test_restart_of_all_containers_continues_before_the_api_reports_it(clock):
    runtime, manager = FakeRuntime(clock), make_manager(clock)
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
    trigger = make_container("trigger", restart_policy="Never", restart_policy_rules=[rule])
    pod = make_pod("web", containers=[trigger, "other"])
    cause = runtime.start("trigger", pod)
    runtime.start("other", pod)

    def restarting():
        conditions = manager.update(pod, runtime.pod(pod.uid)).conditions
        return next(c.status for c in conditions if c.type == "AllContainersRestarting")

    states = [restarting()]
    runtime.exit(cause, 42)
    states.append(restarting())
    await runtime.remove_container(cause)
    states += [restarting(), restarting()]

    assert states == ["False", "True", "True", "True"]


async def test_terminated_pod_is_deleted_once(clock):
    api, runtime = FakeApi(), FakeRuntime(clock)
    deletion = {"deletion_timestamp": clock.wall(), "deletion_grace_period_seconds": 0}
    pod = make_pod("web", metadata=deletion)
    await api.create(PODS, {"metadata": {"name": "web", "uid": pod.uid}, "spec": {}}, "default")
    manager = make_manager(clock, api)
    api.fail("delete", ApiUnavailable("away"), times=1)

    async with sending(manager):
        manager.update(pod, runtime.pod(pod.uid), ended=True)
        manager.terminated(pod)
        await clock.settle()
        await clock.advance(RETRY_SECONDS)
        manager.terminated(pod)
        await clock.settle()

    assert len(api.made("delete")) == 2  # The failed request, and the one that succeeded.


async def test_unchanged_inputs_result_in_the_same_status(clock):
    runtime, pod = FakeRuntime(clock), make_pod("web")
    manager = make_manager(clock)
    runtime.start("main", pod)
    observed = runtime.pod(pod.uid)
    manager.update(pod, observed)
    steady = manager.update(pod, observed)

    await clock.advance(60)

    assert manager.update(pod, observed) is steady


@pytest.mark.parametrize(
    ("changed", "value", "reported"),
    [
        ("probe", ProbeResult.FAILURE, lambda status: status["containerStatuses"][0]["ready"]),
        ("health", "Unhealthy", lambda status: status["containerStatuses"][0]["allocatedResourcesStatus"]),
        ("addresses", ["10.0.0.2"], lambda status: status["hostIP"]),
        ("note", "pull: slow", lambda status: [condition.get("message") for condition in status["conditions"]]),
    ],
)
def test_steady_status_follows_each_input(clock, changed, value, reported):
    runtime = FakeRuntime(clock)
    pod = make_pod("web", containers=[make_container("main", readiness_probe={"exec": {"command": ["true"]}})])
    inputs = {"probe": ProbeResult.SUCCESS, "health": "Healthy", "addresses": ["10.0.0.1"], "note": ""}
    if changed == "note":
        inputs["probe"] = ProbeResult.FAILURE
    manager = StatusManager(
        api=lambda: None,
        clock=clock,
        plugins=PluginManager(),
        probes=lambda container_id, kind: inputs["probe"],
        host_ips=lambda: inputs["addresses"],
        runtime_name=lambda: "fake",
        is_static=is_static,
        mirror_of=lambda pod: None,
        gates=build_gates({}, NEWEST),
        note=lambda pod: inputs["note"],
        device_health=lambda uid, container: {"example.com/widget": [DeviceHealth("w0", inputs["health"])]},
    )
    runtime.start("main", pod)
    observed = runtime.pod(pod.uid)
    for _ in range(3):
        manager.update(pod, observed)
    before = reported(to_wire(manager.get(pod.uid)))

    inputs[changed] = value
    manager.update(pod, observed)

    assert reported(to_wire(manager.get(pod.uid))) != before


async def test_status_of_a_pod_that_was_not_found_is_sent_with_the_next_sync(clock):
    api, runtime, pod = FakeApi(), FakeRuntime(clock), make_pod("web")
    manager, standalone = make_manager(clock, api), make_manager(clock)
    runtime.start("main", pod)
    observed = runtime.pod(pod.uid)

    async with sending(manager):
        for _ in range(3):
            manager.update(pod, observed)
            standalone.update(pod, observed)
        await clock.settle()
        await api.create(PODS, {"metadata": {"name": "web", "uid": pod.uid}}, "default")
        manager.update(pod, observed)
        await clock.settle()
        sent = len(api.made("patch"))
        manager.update(pod, observed)
        await clock.settle()

    assert (sent, len(api.made("patch"))) == (2, 2)
    assert api.find(PODS, "web")["status"]["phase"] == "Running"


async def test_status_overwritten_repeatedly_is_checked_once(clock):
    api, runtime, pod, triggered = FakeApi(), FakeRuntime(clock), make_pod("web"), []
    await api.create(PODS, {"metadata": {"name": "web", "uid": pod.uid}}, "default")
    manager = make_manager(clock, api, triggered.append)
    runtime.start("main", pod)
    status = manager.update(pod, runtime.pod(pod.uid))
    lost = with_condition(msgspec.structs.replace(pod, status=status), "Ready", "False")
    ended = msgspec.structs.replace(pod, status=msgspec.structs.replace(lost.status, phase="Failed"))

    async with sending(manager):
        await clock.settle()
        manager.record_api_status(ended)
        await clock.advance(2 * OVERWRITE_CHECK_SECONDS)
        assert triggered == [], "terminal statuses stay"
        for _ in range(3):
            manager.record_api_status(lost)
            await clock.advance(OVERWRITE_CHECK_SECONDS / 4)
        await clock.advance(2 * OVERWRITE_CHECK_SECONDS)
        assert triggered == [pod.uid]
        manager.update(pod, runtime.pod(pod.uid))
        await clock.settle()
        manager.record_api_status(lost)
        await clock.advance(OVERWRITE_CHECK_SECONDS / 2)
        manager.record_api_status(msgspec.structs.replace(pod, status=status))
        await clock.advance(OVERWRITE_CHECK_SECONDS)
        assert triggered == [pod.uid], "the status was repaired before the check"


async def test_outage_and_recovery_are_logged_once(clock, caplog):
    caplog.set_level("INFO")
    api = FakeApi()
    manager = make_manager(clock, api)
    api.fail("patch", ApiUnavailable("away"), times=4)

    async with sending(manager):
        for name in ("a", "b"):
            manager.update(make_pod(name), None)
        await clock.advance(30)

    messages = [record.message for record in caplog.records if record.levelname == "INFO"]
    assert messages == ["Failed to update status for pod", "Pod status updates recovered"]


async def test_pod_forgotten_while_its_status_is_sent_does_not_stop_the_others(clock):
    api = FakeApi()
    manager = make_manager(clock, api)
    one, failing, other = (make_pod(name) for name in ("one", "failing", "other"))

    async with sending(manager):
        api.hang("patch")
        manager.update(one, None)
        await clock.settle()
        manager.forget(one.uid)
        api.recover("patch")
        api.fail("patch", ApiUnavailable("away"))
        manager.update(failing, None)
        await clock.settle()
        manager.forget(failing.uid)
        await clock.advance(60)
        manager.update(other, None)
        await clock.settle()

    assert manager.get(one.uid) is None
    assert [call.name for call in api.made("patch")].count("other") == 1


async def test_backoff_starts_again_after_a_status_was_accepted(clock):
    api, runtime, pod = FakeApi(), FakeRuntime(clock), make_pod("web")
    await api.create(PODS, {"metadata": {"name": "web", "uid": pod.uid}}, "default")
    manager = make_manager(clock, api)

    async with sending(manager):
        api.fail("patch", ApiUnavailable("away"), times=6)
        manager.update(pod, None)
        await clock.advance(60)
        before = len(api.made("patch"))
        api.fail("patch", ApiUnavailable("away"))
        runtime.start("main", pod)
        manager.update(pod, runtime.pod(pod.uid))
        await clock.advance(1)

    assert (before, len(api.made("patch"))) == (7, 9)


async def test_plugins_are_notified_of_each_change_of_a_status(clock):
    seen = []

    class Listener:
        @hookimpl
        async def nodeagent_pod_status_changed(self, pod, status):
            seen.append((pod.name, status.phase))

    plugins = PluginManager()
    plugins.register(Listener(), name="listener")
    runtime, pod = FakeRuntime(clock), make_pod("web", annotations={"kubernetes.io/config.source": "file"})
    manager = make_manager(clock, FakeApi(), plugins=plugins)

    async with sending(manager):
        for start in (False, False, True):
            if start:
                runtime.start("main", pod)
            manager.update(pod, runtime.pod(pod.uid))
            await clock.settle()
        manager.terminated(pod)
        await clock.settle()

    assert seen == [("web", "Pending"), ("web", "Running")]


async def test_flush_reports_the_number_of_unsent_statuses(clock, caplog):
    api = FakeApi()
    manager = make_manager(clock, api)
    api.hang("patch")

    async with sending(manager):
        await manager.flush(0.01)
        assert caplog.records == []
        for name in ("a", "b"):
            manager.update(make_pod(name), None)
        await clock.settle()
        await manager.flush(0.01)

    (record,) = caplog.records
    assert (record.message, record.pods) == ("Failed to send all pod statuses in time", 2)


async def test_pod_is_deleted_only_when_requested_and_never_if_static(clock):
    api = FakeApi()
    deletion = {"deletion_timestamp": clock.wall(), "deletion_grace_period_seconds": 0}
    static = {"kubernetes.io/config.source": "file"}
    mirror = make_pod("static")
    manager = make_manager(clock, api, mirror_of=lambda pod: mirror)
    pods = [
        make_pod("kept"),
        make_pod("running", metadata=deletion),
        make_pod("static", annotations=static, metadata=deletion),
    ]

    async with sending(manager):
        for pod in pods:
            manager.update(pod, None, ended=True)
            if pod.name != "running":
                manager.terminated(pod)
        manager.terminated(make_pod("unknown", metadata=deletion))
        await clock.settle()

    assert api.made("delete") == []
