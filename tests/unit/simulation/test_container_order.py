"""Tests for the order of containers in the simulation: what violates it, and what does not."""

import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.simulation.container_order import ContainerOrder
from nodeagent.simulation.pods import make_pod
from nodeagent.simulation.runtime_objects import Container, Sandbox


class Pod:
    """A pod whose containers the test starts and ends."""

    def __init__(self, **shape):
        self.running: list[Container] = []
        self.sandboxes = 0
        self.order = ContainerOrder(lambda: self.running)
        self.order.added("a", make_pod("web", "a", policy="Always", **shape)["spec"])
        self.sandbox = self.new_sandbox()

    def new_sandbox(self) -> Sandbox:
        config = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(uid="a", name="web"))
        self.sandboxes += 1
        self.sandbox = Sandbox(f"s{self.sandboxes}", config, 0, "192.0.2.9")
        return self.sandbox

    def start(self, name: str) -> str:
        config = cri.ContainerConfig(metadata=cri.ContainerMetadata(name=name))
        container = Container(name, self.sandbox, config, 0, state=cri.CONTAINER_RUNNING)
        problem = self.order.start(container)
        self.running.append(container)
        return problem

    def find(self, name: str) -> Container:
        return next(each for each in self.running if each.name == name)

    def end(self, name: str, code: int = 0) -> None:
        container = self.find(name)
        self.running.remove(container)
        container.exit_code = code
        self.order.ended(container)

    def stop(self, name: str, now: float = 0.0, *, grace: float = 10, delayed: bool = False) -> str:
        return self.order.stop(self.find(name), now, grace, delayed=delayed)


def test_container_starts_after_the_init_container_has_succeeded():
    pod = Pod(init=1)

    assert pod.start("init-0") == ""
    assert pod.start("main-0") == "container main-0 of pod a starts before init-0 has passed"
    pod.end("init-0", 1)
    assert pod.start("main-0") != ""
    pod.running.clear()
    assert pod.start("init-0") == ""
    pod.end("init-0")
    assert pod.start("main-0") == ""


def test_init_containers_are_executed_once_in_each_sandbox():
    pod = Pod(init=1)
    pod.start("init-0")
    pod.end("init-0")

    assert pod.start("init-0") == "container init-0 of pod a runs again although it has succeeded"
    pod.new_sandbox()
    assert pod.start("main-0") != ""
    assert pod.start("init-0") == "container init-0 of pod a starts while ['main-0'] run"
    pod.running.clear()
    pod.new_sandbox()
    assert pod.start("init-0") == ""


def test_sidecar_without_a_startup_probe_passes_when_it_starts():
    pod = Pod(sidecars=2, init=1)

    assert pod.start("init-0") == "container init-0 of pod a starts before sidecar-0 has passed"
    pod.running.clear()
    assert pod.start("sidecar-0") == ""
    assert pod.start("init-0") == ""
    pod.end("init-0")
    assert pod.start("main-0") == "container main-0 of pod a starts before sidecar-1 has passed"
    assert pod.start("sidecar-1") == ""
    assert pod.start("main-0") == ""


def test_startup_probe_of_a_sidecar_delays_the_next_container():
    pod = Pod(sidecars=1, startup=5)
    pod.start("sidecar-0")

    assert pod.start("main-0") != ""
    pod.running.pop()
    pod.order.started_up(pod.find("sidecar-0"))
    assert pod.start("main-0") == ""
    pod.end("sidecar-0", 1)
    pod.end("main-0", 1)
    assert pod.start("main-0") == ""
    assert pod.start("sidecar-0") == "", "a sidecar starts again while the others run"


def test_ephemeral_containers_and_unknown_pods_start_at_any_time():
    pod = Pod(init=1)

    assert pod.start("debug-0") == ""
    pod.order.forget((), ())
    assert pod.start("main-0") == ""


def test_sidecar_is_stopped_after_the_containers_have_ended():
    pod = Pod(sidecars=1, containers=2)
    for name in ("sidecar-0", "main-0", "main-1"):
        pod.start(name)

    assert pod.stop("main-0") == ""
    assert pod.stop("sidecar-0") == "sidecar-0 of pod a is stopped before main-0"
    pod.end("main-0")
    assert pod.stop("sidecar-0") == "sidecar-0 of pod a is stopped before main-1"
    pod.end("main-1")
    assert pod.stop("sidecar-0") == ""


@pytest.mark.parametrize(("now", "delayed", "permitted"), [(9.4, False, False), (9.5, False, True), (5.0, True, True)])
def test_sidecar_is_stopped_when_the_others_had_their_grace_period(now, delayed, permitted):
    pod = Pod(sidecars=1)
    pod.start("sidecar-0")
    pod.start("main-0")
    pod.find("main-0").requested_at = 0.0

    problem = pod.stop("sidecar-0", now, delayed=delayed)

    assert problem == ("" if permitted else "sidecar-0 of pod a is stopped while main-0 has time to end")


@pytest.mark.parametrize(
    ("misreported", "requested_at", "permitted"), [(True, 9.0, True), (True, None, False), (False, 9.0, False)]
)
def test_success_during_the_stop_of_an_unknown_container_may_be_repeated(misreported, requested_at, permitted):
    pod = Pod(init=1)
    pod.start("init-0")
    container = pod.find("init-0")
    container.was_misreported, container.requested_at = misreported, requested_at
    pod.end("init-0")

    assert (pod.start("init-0") == "") == permitted
    assert pod.start("main-0") == ""


def test_sidecar_in_an_unknown_state_may_be_stopped():
    pod = Pod(sidecars=1)
    pod.start("sidecar-0")
    pod.start("main-0")
    pod.find("sidecar-0").misreported = True

    assert pod.stop("sidecar-0") == ""


@pytest.mark.parametrize(("hook_at", "permitted"), [(None, False), (90.6, False), (90.5, True)])
def test_sidecar_is_stopped_after_the_hooks_of_containers(hook_at, permitted):
    pod = Pod(sidecars=1, hook=True)
    pod.start("sidecar-0")
    pod.start("main-0")
    pod.find("main-0").hook_requested_at = hook_at

    assert (pod.stop("sidecar-0", now=100.0) == "") == permitted


@pytest.mark.parametrize(
    ("hook_at", "options", "permitted"),
    [(None, {}, False), (99.0, {}, True), (None, {"grace": 0}, True), (None, {"delayed": True}, True)],
)
def test_container_is_stopped_after_its_hook_has_started(hook_at, options, permitted):
    pod = Pod(hook=True)
    pod.start("main-0")
    pod.find("main-0").hook_requested_at = hook_at

    problem = pod.stop("main-0", **options)

    assert problem == ("" if permitted else "main-0 of pod a is stopped before its preStop hook")


def test_probes_follow_the_startup_probe():
    pod, without = Pod(startup=5), Pod()
    pod.start("main-0")
    without.start("main-0")
    main = pod.find("main-0")

    assert pod.order.check(main) == "main-0 of pod a is probed before its startup probe has succeeded"
    main.started_up = True
    assert pod.order.check(main) == without.order.check(without.find("main-0")) == ""


def test_all_containers_run_again_after_an_exit_with_the_code_of_the_rule():
    pod = Pod(init=1, containers=2, rule="RestartAllContainers")
    pod.start("init-0")
    pod.end("init-0")
    pod.start("main-0")
    pod.end("main-0", 1)
    assert pod.start("init-0") != ""
    pod.running.clear()

    pod.start("main-0")
    main = pod.find("main-0")
    pod.end("main-0", 42)

    assert pod.order.restarts_all(main)
    assert pod.start("init-0") == ""
    assert pod.start("main-0") != "", "the init container has not succeeded again"
    assert pod.order.names("a") == ["main-0", "main-1"]


def test_first_start_may_follow_the_exit_that_restarts_all_containers():
    pod = Pod(sidecars=1, containers=2, rule="RestartAllContainers")
    for _ in range(2):
        pod.running.clear()
        pod.start("sidecar-0")
        pod.start("main-0")
        pod.end("main-0", 42)

        assert pod.start("main-1") == "", "the agent may not have observed the exit"

    assert pod.start("main-1") == "container main-1 of pod a starts before sidecar-0 has passed"
    assert pod.start("main-0") == "container main-0 of pod a starts before sidecar-0 has passed"
    pod.order.forget({"a"}, ())
    pod.start("sidecar-0")
    assert pod.start("main-1") == ""


@pytest.mark.parametrize(("requested_at", "permitted"), [(None, False), (0.0, True)])
@pytest.mark.parametrize("name", ["main-0", "main-1", "sidecar-1"])
def test_container_that_is_being_stopped_may_start_again_before_all_others(name, requested_at, permitted):
    pod = Pod(sidecars=2, containers=2, startup=5, rule="RestartAllContainers")
    for each in ("sidecar-0", "sidecar-1", "main-0", "main-1"):
        pod.start(each)
    pod.find(name).requested_at = requested_at
    pod.end("main-0", 42)

    assert (pod.start(name) == "") is permitted
    pod.start("sidecar-0")
    assert pod.start("main-1") == "container main-1 of pod a starts before sidecar-0 has passed"


def test_rule_for_one_container_restarts_no_others():
    pod = Pod(containers=2, rule="Restart")
    pod.start("main-0")
    pod.start("main-1")
    main, other = pod.find("main-0"), pod.find("main-1")
    pod.end("main-0", 42)

    assert not pod.order.restarts_all(main)
    assert (pod.order.rule(main), pod.order.rule(other)) == ("Restart", "")


def test_deadline_is_that_of_the_pod():
    assert Pod(deadline=60).order.deadline("a") == 60
    assert Pod().order.deadline("a") == Pod().order.deadline("unknown") == 0


def test_containers_of_an_earlier_sandbox_do_not_delay_init_containers():
    pod = Pod(init=1)
    pod.start("init-0")
    pod.end("init-0")
    pod.start("main-0")
    pod.new_sandbox()

    assert pod.start("init-0") == ""


def test_records_of_existing_pods_and_sandboxes_are_not_forgotten():
    pod = Pod(init=1)
    pod.start("init-0")
    pod.end("init-0")

    pod.order.forget({"a"}, {pod.sandbox.id})
    assert pod.start("main-0") == ""

    pod.order.forget({"a"}, set())
    assert pod.start("main-1") == "container main-1 of pod a starts before init-0 has passed"
