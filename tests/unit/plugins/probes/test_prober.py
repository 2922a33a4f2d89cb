"""Tests for the prober."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodeagent.base.release import Release, SelectedRelease
from nodeagent.contracts.probes import ProbeKind, ProbeResult
from nodeagent.contracts.runtime import ContainerState, ExecResult
from nodeagent.errors import RuntimeUnavailable
from nodeagent.model.pod import ContainerStatus, Pod, PodStatus
from nodeagent.testing import (
    FakeClock,
    FakePodDirectory,
    FakeRecorder,
    FakeRuntime,
    make_container,
    make_context,
    make_pod,
)
from nodeagent_plugins import probes
from nodeagent_plugins.probes.outcome import Outcome, OutcomeKind
from nodeagent_plugins.probes.prober import ProbeManager
from nodeagent_plugins.probes.worker import DURATIONS, PROBES

LIVENESS, READINESS, STARTUP = ProbeKind.LIVENESS, ProbeKind.READINESS, ProbeKind.STARTUP
GOOD, BAD, UNKNOWN = ProbeResult.SUCCESS, ProbeResult.FAILURE, ProbeResult.UNKNOWN


class Node:
    """Prober with a runtime whose containers respond as set by the test."""

    def __init__(self, tmp_path: Path, clock: FakeClock) -> None:
        self.clock, self.runtime = clock, FakeRuntime(clock)
        self.directory, self.recorder = FakePodDirectory(), FakeRecorder()
        self.healthy = True
        self.context = make_context(
            tmp_path, clock=clock, runtime=self.runtime, pods=self.directory, recorder=self.recorder
        )
        self.prober = ProbeManager(self.context)
        self.runtime.on_exec("main", lambda _: ExecResult(0 if self.healthy else 1, b"output"))

    def sync(self, pod: Pod) -> None:
        """Update the observed state and pass the pod to the prober, as a sync does."""
        observed = self.runtime.pod(pod.uid)
        self.directory.add(pod, observed=observed)
        self.prober.add_pod(pod, observed)

    def probed(self) -> int:
        return len(self.runtime.called("exec_sync"))

    def results(self, container_id: str) -> list[ProbeResult | None]:
        return [self.prober.result(container_id, kind) for kind in (LIVENESS, READINESS, STARTUP)]


@pytest.fixture
async def node(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Node]:
    node = Node(tmp_path, clock)
    await clock.advance(3600)  # the agent has run for a while
    yield node
    await node.context.tasks.close()


def probed_pod(*kinds: str, **fields: Any) -> Pod:
    """Return a pod whose container has these probes; the fields apply to each probe."""
    probe = {"exec": {"command": ["check"]}, "timeoutSeconds": 1, "periodSeconds": 10, "failureThreshold": 3, **fields}
    return make_pod(containers=[make_container(**{f"{kind}_probe": probe for kind in kinds})])


async def test_initial_results_equal_upstream(node: Node) -> None:
    pod = probed_pod("liveness", "readiness", "startup", initialDelaySeconds=5)
    web = node.runtime.start("main", pod)

    node.sync(pod)

    assert node.results(web) == [GOOD, BAD, UNKNOWN]
    assert node.directory.triggered == []


async def test_container_without_probes_has_no_results(node: Node) -> None:
    pod = make_pod()
    web = node.runtime.start("main", pod)
    node.sync(pod)

    assert node.results(web) == [None, None, None]
    assert len(node.context.tasks) == 0


async def test_container_has_results_right_after_its_start(node: Node, clock: FakeClock) -> None:
    pod = probed_pod("readiness")
    node.sync(pod)
    web = node.runtime.start("main", pod)
    node.directory.add(pod, observed=node.runtime.pod(pod.uid))

    first = node.results(web)
    await clock.settle()

    assert first == [None, BAD, None]
    assert node.results(web) == [None, GOOD, None]
    assert node.directory.triggered == [pod.uid]


async def test_probe_runs_each_period_after_the_initial_delay(node: Node, clock: FakeClock) -> None:
    pod = probed_pod("liveness", initialDelaySeconds=15)
    node.runtime.start("main", pod)
    node.sync(pod)

    await clock.advance(14)
    before = node.probed()
    await clock.advance(1)
    first = node.probed()
    await clock.advance(30)

    assert (before, first, node.probed()) == (0, 1, 4)


async def test_restarted_agent_spreads_its_first_probes(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("random.random", lambda: 0.5)
    node, pod = Node(tmp_path, clock), probed_pod("readiness")
    node.runtime.start("main", pod)
    await clock.advance(3)
    node.sync(pod)

    await clock.advance(4)
    before = node.probed()
    await clock.advance(1)

    assert (before, node.probed()) == (0, 1)
    await node.context.tasks.close()


def reported_as(pod: Pod, container_id: str, *, ready: bool, started: bool) -> Pod:
    """Return *pod* as stored on the API server before a restart."""
    shown = ContainerStatus(name="main", container_id=f"fake://{container_id}", ready=ready, started=started)
    return make_pod(containers=list(pod.spec.containers), status=PodStatus(container_statuses=[shown]))


async def test_reported_results_remain_until_a_probe_changes_them(node: Node, clock: FakeClock) -> None:
    pod = probed_pod("readiness", "startup", failureThreshold=1)
    web = node.runtime.start("main", pod)
    pod = reported_as(pod, web, ready=True, started=True)
    node.directory.add(pod)
    before_the_first_sync = node.results(web)
    node.healthy = False

    node.sync(pod)
    taken_up = node.results(web)
    await clock.settle()

    assert before_the_first_sync == taken_up == [None, GOOD, GOOD]
    assert node.results(web) == [None, BAD, GOOD]
    assert node.probed() == 1  # startup is not probed again


async def test_reported_results_apply_only_to_their_container(node: Node) -> None:
    pod = probed_pod("readiness", "startup", initialDelaySeconds=5)
    web = node.runtime.start("main", pod)
    pod = reported_as(pod, "before", ready=True, started=True)

    node.sync(pod)

    assert node.results(web) == [None, BAD, UNKNOWN]


async def test_static_pod_keeps_the_results_of_its_mirror_pod(node: Node, clock: FakeClock) -> None:
    pod = probed_pod("readiness", "startup", initialDelaySeconds=3600 * 24)
    web = node.runtime.start("main", pod)
    node.directory.reported[pod.uid] = None
    node.sync(pod)
    await clock.settle()
    before_the_mirror_pod_is_read = node.results(web)

    node.directory.reported[pod.uid] = reported_as(pod, web, ready=True, started=True).status

    assert before_the_mirror_pod_is_read == [None, BAD, UNKNOWN]
    assert node.results(web) == [None, GOOD, GOOD]


async def test_mirror_pod_does_not_replace_results_of_probes(node: Node, clock: FakeClock) -> None:
    pod = probed_pod("readiness", failureThreshold=1)
    web = node.runtime.start("main", pod)
    node.directory.reported[pod.uid] = None
    node.healthy = False
    node.sync(pod)
    await clock.settle()

    node.directory.reported[pod.uid] = reported_as(pod, web, ready=True, started=True).status

    assert node.results(web) == [None, BAD, None]


async def test_startup_in_progress_continues_after_a_restart(node: Node) -> None:
    pod = probed_pod("readiness", "startup", initialDelaySeconds=5)
    web = node.runtime.start("main", pod)

    node.sync(reported_as(pod, web, ready=False, started=False))

    assert node.results(web) == [None, BAD, UNKNOWN]


async def test_readiness_changes_at_its_thresholds(node: Node, clock: FakeClock) -> None:
    pod = probed_pod("readiness", successThreshold=2, failureThreshold=2)
    web = node.runtime.start("main", pod)
    node.sync(pod)
    seen = []

    for healthy in (True, True, False, False, True, True):
        node.healthy = healthy
        await clock.advance(10 if seen else 0)
        seen.append(node.prober.result(web, READINESS))

    assert seen == [BAD, GOOD, GOOD, BAD, BAD, GOOD]
    assert node.directory.triggered == [pod.uid] * 3
    assert [event.note for event in node.recorder.of("Unhealthy")] == ["Readiness probe failed: output"] * 2
    assert node.recorder.events[0].regarding.field_path == "spec.containers{main}"


@pytest.mark.parametrize(("kind", "name"), [(LIVENESS, "liveness"), (STARTUP, "startup")])
async def test_failed_probe_waits_for_a_new_container(node: Node, clock: FakeClock, kind: ProbeKind, name: str) -> None:
    pod = probed_pod(name, failureThreshold=2)
    first = node.runtime.start("main", pod)
    node.healthy = False
    node.sync(pod)

    await clock.advance(10)
    failed, tried = node.prober.result(first, kind), node.probed()
    await clock.advance(60)
    held = node.probed()
    node.runtime.exit(first, 137)
    node.healthy = True
    second = node.runtime.start("main", pod)
    node.sync(pod)
    await clock.settle()

    assert (failed, tried, held) == (BAD, 2, 2)
    assert node.prober.result(first, kind) is None
    assert node.prober.result(second, kind) is GOOD
    assert node.probed() == 3


async def test_liveness_and_readiness_wait_for_startup(node: Node, clock: FakeClock) -> None:
    pod = probed_pod("liveness", "readiness", "startup")
    web = node.runtime.start("main", pod)
    node.healthy = False
    node.sync(pod)
    await clock.advance(10)
    waiting, tried = node.results(web), node.probed()

    node.healthy = True
    await clock.advance(10)
    done = node.probed()
    await clock.advance(10)

    assert (waiting, tried) == ([GOOD, BAD, UNKNOWN], 2)
    assert node.results(web) == [GOOD, GOOD, GOOD]
    assert done == 2 + 3  # Startup, and immediately the two probes that waited for it.
    assert node.probed() == done + 2  # startup is over


async def test_exited_container_is_not_ready(node: Node, clock: FakeClock) -> None:
    pod = probed_pod("liveness", "readiness")
    web = node.runtime.start("main", pod)
    node.sync(pod)
    await clock.settle()

    node.runtime.exit(web)
    node.sync(pod)
    await clock.advance(30)

    assert node.results(web) == [GOOD, BAD, None]
    assert node.probed() == 2


async def test_probe_error_does_not_count(node: Node, clock: FakeClock) -> None:
    pod = probed_pod("liveness", failureThreshold=1)
    web = node.runtime.start("main", pod)
    node.runtime.fail("exec_sync", RuntimeUnavailable("gone"), times=None)
    node.sync(pod)

    await clock.settle()

    assert node.prober.result(web, LIVENESS) is GOOD
    assert node.probed() == 3
    assert [event.note for event in node.recorder.of("Unhealthy")] == ["Liveness probe errored: rpc error: gone"]


async def test_probe_error_names_the_state_since_1_33(node: Node, clock: FakeClock) -> None:
    node.context.release = SelectedRelease(Release(1, 33))  # type: ignore[misc]
    pod = probed_pod("liveness", failureThreshold=1)
    node.runtime.start("main", pod)
    node.runtime.fail("exec_sync", RuntimeUnavailable("gone"), times=None)
    node.sync(pod)

    await clock.settle()

    (event,) = node.recorder.of("Unhealthy")
    assert event.note == "Liveness probe errored and resulted in unknown state: rpc error: gone"


async def test_bug_in_the_prober_does_not_stop_the_probe(
    node: Node, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: Any) -> Any:
        raise AssertionError("bug")

    pod = probed_pod("readiness")
    web = node.runtime.start("main", pod)
    with monkeypatch.context() as patch:
        patch.setattr("nodeagent_plugins.probes.actions.Actions.run", broken)
        node.sync(pod)
        await clock.settle()
    broke = node.prober.result(web, READINESS)
    await clock.advance(10)

    assert "Probe failed unexpectedly" in caplog.text
    assert (broke, node.prober.result(web, READINESS)) == (BAD, GOOD)


async def test_container_not_started_at_termination_stays_unready(node: Node, clock: FakeClock) -> None:
    pod = probed_pod("readiness", "startup")
    web = node.runtime.start("main", pod)
    node.healthy = False
    node.sync(pod)
    await clock.settle()

    node.healthy = True
    node.prober.end_liveness(pod.uid)
    await clock.advance(30)

    assert node.results(web) == [None, BAD, UNKNOWN]


async def test_liveness_probes_resume_after_stopped_pod_is_permitted(node: Node, clock: FakeClock) -> None:
    pod = probed_pod("liveness", failureThreshold=1)
    first = node.runtime.start("main", pod)
    node.sync(pod)
    node.prober.end_liveness(pod.uid)
    node.runtime.exit(first)

    again = node.runtime.start("main", pod)
    node.sync(pod)
    node.healthy = False
    await clock.advance(10)

    assert node.results(again) == [BAD, None, None]


async def test_container_that_is_being_started_is_probed_soon(node: Node, clock: FakeClock) -> None:
    pod = probed_pod("readiness", periodSeconds=60)
    web = node.runtime.start("main", pod)
    observed = node.runtime.pod(pod.uid)
    starting = replace(observed, containers=[replace(observed.containers[0], state=ContainerState.CREATED)])
    node.directory.add(pod, observed=starting)
    node.prober.add_pod(pod, starting)
    await clock.settle()

    node.directory.add(pod, observed=observed)
    await clock.advance(1)

    assert node.prober.result(web, READINESS) is GOOD


async def test_redirect_to_another_host_is_a_success_with_a_warning(
    node: Node, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nodeagent_plugins.probes.outcome import Outcome, OutcomeKind

    agents: list[str] = []

    async def away(*_: Any, user_agent: str) -> Outcome:
        agents.append(user_agent)
        return Outcome(OutcomeKind.WARNING, "Probe terminated redirects")

    monkeypatch.setattr("nodeagent_plugins.probes.actions.probe_http", away)
    pod = make_pod(containers=[make_container(readiness_probe={"httpGet": {"port": 80}})])
    web = node.runtime.start("main", pod)
    node.sync(pod)
    await clock.settle()

    assert node.prober.result(web, READINESS) is GOOD
    assert [event.note for event in node.recorder.of("ProbeWarning")] == [
        "Readiness probe warning: Probe terminated redirects"
    ]
    assert set(agents) == {"kube-probe/1.29"}


async def end_liveness(node: Node, pod: Pod) -> None:
    node.prober.end_liveness(pod.uid)


async def delete(node: Node, pod: Pod) -> None:
    node.sync(make_pod(containers=list(pod.spec.containers), metadata={"deletion_timestamp": node.clock.wall()}))


@pytest.mark.parametrize("end", [end_liveness, delete])
async def test_only_readiness_continues_for_a_terminating_pod(
    node: Node, clock: FakeClock, end: Callable[[Node, Pod], Any]
) -> None:
    pod = probed_pod("liveness", "readiness", failureThreshold=1)
    web = node.runtime.start("main", pod)
    node.sync(pod)
    await clock.settle()

    node.healthy = False
    await end(node, pod)
    await clock.advance(10)

    assert node.results(web) == [GOOD, BAD, None]
    assert len(node.context.tasks) == 1
    assert DURATIONS.count("Liveness", "main", pod.name, pod.namespace) == 0
    assert DURATIONS.count("Readiness", "main", pod.name, pod.namespace) > 0


async def test_removed_pod_has_no_tasks_or_results(node: Node, clock: FakeClock) -> None:
    pod = probed_pod("liveness", "readiness", "startup")
    web = node.runtime.start("main", pod)
    node.sync(pod)
    await clock.settle()

    node.prober.remove_pod(pod.uid)
    node.prober.remove_pod(pod.uid)
    await clock.settle()

    assert node.results(web) == [None, None, None]
    assert len(node.context.tasks) == 0
    assert clock.sleepers == 0


@pytest.mark.parametrize(
    ("action", "times"),
    [({"tcpSocket": {"host": "h", "port": 80}}, {0.25, 0.0}), ({"exec": {"command": ["check"]}}, {0.3, 0.45, 0.1})],
)
async def test_network_probes_share_times_and_keep_their_period(
    node: Node, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, action: dict[str, Any], times: set[float]
) -> None:
    start = clock.now()
    probed: list[float] = []

    async def probe_tcp(*_: Any) -> Outcome:
        probed.append(clock.now() - start)
        await clock.sleep(0.01)
        return Outcome(OutcomeKind.SUCCESS)

    def check(_: Any) -> ExecResult:
        probed.append(clock.now() - start)
        return ExecResult(0, b"")

    monkeypatch.setattr("nodeagent_plugins.probes.actions.probe_tcp", probe_tcp)
    node.runtime.on_exec("main", check)
    for name, offset in (("a", 0.3), ("b", 0.45), ("c", 1.1)):
        await clock.advance(start + offset - clock.now())
        pod = make_pod(name, uid=name, containers=[make_container(readiness_probe={"periodSeconds": 10, **action})])
        node.runtime.start("main", pod)
        node.sync(pod)
    await clock.advance(100)

    later = [time for time in probed if time > 9]
    assert {round(time % 1, 2) for time in later} == times
    assert len(later) == 30


async def test_changed_probe_replaces_only_its_worker(node: Node, clock: FakeClock) -> None:
    pod = probed_pod("liveness", "readiness")
    node.runtime.start("main", pod)
    node.sync(pod)
    await clock.settle()

    quicker = {"exec": {"command": ["check"]}, "periodSeconds": 2}
    container = make_container(liveness_probe=quicker, readiness_probe=pod.spec.containers[0].readiness_probe)
    node.sync(make_pod(containers=[container]))
    await clock.advance(9)

    assert len(node.context.tasks) == 2
    assert node.probed() == 2 + 5


@pytest.mark.parametrize(("ended", "tasks"), [(False, 2), (True, 1)])
async def test_liveness_probe_is_not_started_again_for_a_terminating_pod(
    node: Node, clock: FakeClock, ended: bool, tasks: int
) -> None:
    pod = probed_pod("readiness")
    node.runtime.start("main", pod)
    node.sync(pod)
    await clock.settle()
    if ended:
        node.prober.end_liveness(pod.uid)

    probe = {"exec": {"command": ["check"]}, "periodSeconds": 2}
    metadata = {"deletion_timestamp": node.clock.wall()} if ended else {}
    containers = [make_container(liveness_probe=probe, readiness_probe=probe)]
    node.sync(make_pod(containers=containers, metadata=metadata))
    await clock.settle()

    assert len(node.context.tasks) == tasks


async def test_sidecars_are_probed_and_init_containers_are_not(node: Node, clock: FakeClock) -> None:
    probe = {"exec": {"command": ["check"]}}
    pod = make_pod(
        init_containers=[
            make_container("side", restart_policy="Always", readiness_probe=probe),
            make_container("plain", readiness_probe=probe),
        ]
    )
    side = node.runtime.start("side", pod)
    plain = node.runtime.start("plain", pod)
    node.sync(pod)

    await clock.settle()

    assert node.prober.result(side, READINESS) is GOOD
    assert node.prober.result(plain, READINESS) is None


async def test_plugin_provides_a_prober(node: Node) -> None:
    assert isinstance(probes.nodeagent_provide_prober(node.context), ProbeManager)


async def test_probe_metrics_exist_as_long_as_the_pod(node: Node, clock: FakeClock) -> None:
    pod = make_pod("counted", containers=[make_container(readiness_probe={"exec": {"command": ["check"]}})])
    node.runtime.start("main", pod)
    labels = ("main", "counted", "default", pod.uid)

    def counted() -> list[float]:
        return [PROBES.value("Readiness", result, *labels) for result in ("successful", "failed", "unknown")]

    node.sync(pod)
    await clock.settle()
    assert counted() == [1, 0, 0]
    node.healthy = False
    await clock.advance(10)
    assert counted() == [1, 1, 0]
    node.runtime.fail("exec_sync", RuntimeUnavailable("gone"), times=None)
    await clock.advance(10)
    assert counted() == [1, 1, 1]
    assert DURATIONS.count("Readiness", "main", "counted", "default") == 3

    node.prober.remove_pod(pod.uid)
    assert counted() == [0, 0, 0]
    assert DURATIONS.count("Readiness", "main", "counted", "default") == 0


@pytest.mark.parametrize(
    ("probe", "healthy", "status"),
    [
        ("readiness", True, "ready"),
        ("readiness", False, ""),
        ("startup", True, "started"),
        ("liveness", False, "unhealthy"),
        ("liveness", True, None),
    ],
)
async def test_changed_result_is_logged_with_the_status_of_the_kubelet(
    probe: str, healthy: bool, status: str | None, node: Node, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    pod = probed_pod(probe, failureThreshold=1)
    node.runtime.start("main", pod)
    node.healthy = True if probe == "readiness" else healthy
    caplog.set_level("DEBUG")

    node.sync(pod)
    await clock.settle()
    if node.healthy is not healthy:  # Readiness starts as failed, so only a change to failed is logged.
        caplog.clear()
        node.healthy = healthy
    await clock.advance(10)

    records = [vars(record) for record in caplog.records if record.getMessage() == "SyncLoop (probe)"]
    expected = [] if status is None else [(probe, status, pod.full_name)]
    assert [(record["probe"], record["status"], record["pod"]) for record in records] == expected
