"""Tests for the stop of containers."""

from __future__ import annotations

import asyncio

import pytest

from nodeagent.contracts.runtime import ExecResult
from nodeagent.errors import RuntimeFailure
from nodeagent.testing import make_container, make_pod
from nodeagent_plugins.pod_sync.metrics import EARLY_SLEEPS
from nodeagent_plugins.pod_sync.stopping import plan_stop

SIDECARS = [make_container("first", restart_policy="Always"), make_container("second", restart_policy="Always")]
HOOK = {"preStop": {"exec": {"command": ["bye"]}}}


def graces(bench) -> dict[str, int]:
    return {call.arguments[0].rpartition("-")[2]: call.arguments[1] for call in bench.runtime.called("stop_container")}


@pytest.mark.parametrize(
    ("override", "deletion", "probe", "spec", "expected"),
    [
        (1, 20, 5, 30, 1),
        (None, 20, 5, 30, 20),
        (None, None, 5, 30, 5),
        (None, None, None, 30, 30),
        (None, None, None, None, 2),
    ],
)
async def test_effective_grace_period(bench, override, deletion, probe, spec, expected):
    pod = make_pod(termination_grace_period_seconds=spec, metadata={"deletion_grace_period_seconds": deletion})
    await bench.sync(pod)
    status = bench.runtime.pod(pod.uid).containers[0]

    assert plan_stop(pod, status, override_seconds=override, probe_seconds=probe).grace_seconds == expected


async def test_runtime_always_gets_two_seconds(bench):
    pod = make_pod()
    await bench.sync(pod)

    await bench.terminate(pod, 0)

    assert graces(bench) == {"main": 2}


@pytest.mark.row("gate.PodLifecycleSleepAction")
async def test_duration_of_the_pre_stop_hook_is_deducted(make_bench, clock):
    bench = make_bench(feature_gates={"PodLifecycleSleepAction": True})
    pod = make_pod(containers=[make_container("main", lifecycle={"preStop": {"sleep": {"seconds": 12}}})])
    await bench.sync(pod)

    job = asyncio.create_task(bench.terminate(pod, 30))
    await clock.advance(12)
    await job

    assert graces(bench) == {"main": 18}


@pytest.mark.parametrize(("duration", "left"), [(0.005, 30), (0.7, 30), (1.7, 29), (2, 28)])
async def test_complete_seconds_of_the_pre_stop_hook_are_deducted(bench, clock, monkeypatch, duration, left):
    async def execute(*_arguments):
        await clock.sleep(duration)
        return ExecResult(0)

    pod = make_pod(containers=[make_container("main", lifecycle=HOOK)])
    await bench.sync(pod)
    monkeypatch.setattr(bench.runtime, "exec_sync", execute)

    job = asyncio.create_task(bench.terminate(pod, 30))
    await clock.advance(duration)
    await job

    assert graces(bench) == {"main": left}


async def test_sleep_longer_than_the_grace_period_is_counted(make_bench, clock):
    bench = make_bench(feature_gates={"PodLifecycleSleepAction": True})
    pod = make_pod(containers=[make_container("main", lifecycle={"preStop": {"sleep": {"seconds": 60}}})])
    await bench.sync(pod)
    before = EARLY_SLEEPS.value()

    job = asyncio.create_task(bench.terminate(pod, 30))
    await clock.advance(30)
    await job

    assert EARLY_SLEEPS.value() == before + 1
    assert graces(bench) == {"main": 2}


async def test_sleep_of_zero_seconds_is_allowed(make_bench):
    bench = make_bench(feature_gates={"PodLifecycleSleepAction": True})
    pod = make_pod(containers=[make_container("main", lifecycle={"preStop": {"sleep": {"seconds": 0}}})])
    await bench.sync(pod)

    await bench.terminate(pod, 30)

    assert graces(bench) == {"main": 30}
    assert bench.notes("FailedPreStopHook") == []


@pytest.mark.row("gate.PodLifecycleSleepAction")
async def test_sleep_action_requires_its_gate(make_bench):
    bench = make_bench(feature_gates={"PodLifecycleSleepAction": False})
    pod = make_pod(containers=[make_container("main", lifecycle={"preStop": {"sleep": {"seconds": 12}}})])
    await bench.sync(pod)

    await bench.terminate(pod, 30)

    assert graces(bench) == {"main": 30}
    assert bench.notes("FailedPreStopHook") == ["PreStopHook failed"]


async def test_pre_stop_hook_times_out(bench, clock):
    pod = make_pod(containers=[make_container("main", lifecycle=HOOK)])
    await bench.sync(pod)
    bench.runtime.hang("exec_sync")

    job = asyncio.create_task(bench.terminate(pod, 30))
    await clock.advance(30)
    await job

    assert graces(bench) == {"main": 2}


async def test_pre_stop_hook_continues_until_the_container_has_exited(bench, clock, monkeypatch):
    pod = make_pod(containers=[make_container("main", lifecycle=HOOK)])
    await bench.sync(pod)
    hook = asyncio.Event()

    async def execute(*_args, **_kwargs):
        try:
            await asyncio.Event().wait()
        finally:
            hook.set()

    monkeypatch.setattr(bench.runtime, "exec_sync", execute)
    bench.runtime.hang("stop_container")
    job = asyncio.create_task(bench.terminate(pod, 30))
    await clock.advance(31)

    assert graces(bench) == {"main": 2}
    assert not hook.is_set()
    bench.runtime.recover("stop_container")
    await job
    assert hook.is_set()


async def test_failed_pre_stop_hook_is_an_event_without_details(bench):
    pod = make_pod(containers=[make_container("main", lifecycle=HOOK)])
    await bench.sync(pod)
    bench.runtime.on_exec("main", ExecResult(1, b"secret"))

    await bench.terminate(pod)

    assert bench.notes("FailedPreStopHook") == ["PreStopHook failed"]
    assert bench.runtime.running() == []


async def test_repeated_stop_runs_no_hook_and_records_no_event(bench):
    from nodeagent.errors import RuntimeUnavailable

    pod = make_pod(containers=[make_container("main", lifecycle=HOOK)])
    await bench.sync(pod)
    bench.runtime.fail("stop_container", RuntimeUnavailable("busy"))
    assert (await bench.terminate(pod)).error is not None

    outcome = await bench.terminate(pod)

    assert outcome.error is None
    assert len(bench.runtime.called("exec_sync")) == 1
    assert len(bench.notes("Killing")) == 1


async def test_containers_stop_in_parallel(bench, clock):
    pod = make_pod(containers=["a", "b"])
    for name in ("a", "b"):
        bench.runtime.behave(name, ignores_term=True)
    await bench.sync(pod)

    job = asyncio.create_task(bench.terminate(pod, 10))
    await clock.advance(10)

    assert (await job).error is None
    assert not bench.runtime.pod(pod.uid).alive


async def test_sidecars_stop_last_in_reverse_order_within_the_grace_period(bench, clock):
    pod = make_pod(init_containers=SIDECARS, containers=["main"])
    bench.runtime.behave("main", ignores_term=True)
    await bench.sync(pod)

    job = asyncio.create_task(bench.terminate(pod, 10))
    await clock.advance(4)
    assert list(graces(bench)) == ["main"]
    await clock.advance(6)
    await job

    assert graces(bench) == {"main": 10, "second": 2, "first": 2}
    assert list(graces(bench)) == ["main", "second", "first"]


async def test_sidecars_are_retained_while_another_container_cannot_be_stopped(bench):
    pod = make_pod(init_containers=SIDECARS, containers=["main"])
    await bench.sync(pod)
    bench.runtime.fail("stop_container", RuntimeFailure("broken"))

    outcome = await bench.terminate(pod, 10)

    assert list(graces(bench)) == ["main"]
    assert str(outcome.error) == "broken"
    assert bench.runtime.running() == ["web/first", "web/main", "web/second"]
    await bench.terminate(pod, 10)
    assert not bench.runtime.pod(pod.uid).alive
    assert list(graces(bench)) == ["main", "second", "first"]


async def test_failed_stop_of_a_sidecar_retains_those_that_started_before_it(bench):
    pod = make_pod(init_containers=SIDECARS, containers=["main"])
    await bench.sync(pod)
    bench.runtime.exit(bench.id_of(pod, "main"))
    bench.runtime.fail("stop_container", RuntimeFailure("broken"))

    await bench.terminate(pod, 10)

    assert bench.runtime.running() == ["web/first", "web/second"]


async def test_sidecars_are_stopped_after_the_grace_period_despite_errors(bench, clock):
    pod = make_pod(init_containers=SIDECARS, containers=["main"])
    await bench.sync(pod)
    bench.runtime.fail("stop_container", RuntimeFailure("broken"))
    await bench.terminate(pod, 10)
    await clock.advance(10)
    bench.runtime.fail("stop_container", RuntimeFailure("broken"))

    await bench.terminate(pod, 10)

    assert list(graces(bench)) == ["main", "second", "first"]
    assert not bench.runtime.pod(pod.uid).alive


async def test_cancelled_stop_cancels_its_hook(bench):
    pod = make_pod(containers=[make_container("main", lifecycle=HOOK)])
    await bench.sync(pod)
    bench.runtime.hang("exec_sync")

    job = asyncio.create_task(bench.terminate(pod))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    job.cancel()
    with pytest.raises(asyncio.CancelledError):
        await job
    assert bench.runtime.running() == ["web/main"]


async def test_hook_of_a_container_can_name_its_port(bench, monkeypatch):
    requested = []

    async def get(url, headers):
        requested.append(url)

    monkeypatch.setattr("nodeagent_plugins.pod_sync.lifecycle_hooks._get", get)
    hooks = {name: {"httpGet": {"port": "web", "path": f"/{name}"}} for name in ("postStart", "preStop")}
    ports = [{"name": "web", "containerPort": 8080}]
    other = make_container("other", lifecycle={"preStop": {"httpGet": {"port": 1}}})
    pod = make_pod(containers=[other, make_container("main", lifecycle=hooks, ports=ports)])
    await bench.sync(pod)
    bench.runtime.exit(bench.id_of(pod, "other"))

    await bench.terminate(pod, 30)

    assert [url.partition(":8080")[2] for url in requested] == ["/postStart", "/preStop"]


@pytest.mark.parametrize(("grace", "commands"), [(0, 0), (1, 1)])
async def test_pre_stop_hook_needs_a_grace_period(bench, grace, commands):
    pod = make_pod(containers=[make_container("main", lifecycle=HOOK)])
    await bench.sync(pod)

    await bench.terminate(pod, grace)

    assert len(bench.runtime.called("exec_sync")) == commands
