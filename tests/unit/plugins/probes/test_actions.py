"""Tests for probe actions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from nodeagent.contracts.runtime import ExecResult
from nodeagent.errors import RuntimeUnavailable
from nodeagent.model.pod import ExecAction, HttpGetAction, Probe
from nodeagent.testing import FakeClock, FakeRuntime, make_config, make_container, make_context
from nodeagent_plugins.probes.actions import Actions, Target, find_port, http_url, static_command
from nodeagent_plugins.probes.outcome import Outcome, OutcomeKind, ProbeError

PROBE = Probe(exec=ExecAction(command=["check", "$(WHAT)", "$$(WHAT)", "$(NO)"]), timeout_seconds=7)
CONTAINER = make_container(
    "web",
    env=[
        {"name": "WHAT", "value": "disk"},
        {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ],
    ports=[{"name": "http", "containerPort": 8080}],
)


@pytest.fixture
def runtime(clock: FakeClock) -> FakeRuntime:
    return FakeRuntime(clock)


async def run(tmp_path: Path, runtime: FakeRuntime, probe: Probe = PROBE, **gates: bool) -> Outcome:
    context = make_context(tmp_path, runtime=runtime, config=make_config(feature_gates=gates))
    return await Actions(context).run(probe, Target(CONTAINER, runtime.start("web"), "10.0.0.1"))


async def test_exec_succeeds_with_exit_code_0(tmp_path: Path, runtime: FakeRuntime) -> None:
    runtime.on_exec("web", ExecResult(0, b"fine"))

    assert await run(tmp_path, runtime) == Outcome(OutcomeKind.SUCCESS, "fine")
    (call,) = runtime.called("exec_sync")
    assert call.arguments[1:] == (("check", "disk", "$(WHAT)", "$(NO)"), 7)


async def test_exec_failure_has_the_output(tmp_path: Path, runtime: FakeRuntime) -> None:
    runtime.on_exec("web", ExecResult(1, b"out" * 4000, b"err"))

    outcome = await run(tmp_path, runtime)

    assert outcome.kind is OutcomeKind.FAILURE
    assert len(outcome.output) == 10 * 1024


def too_slow(_: Sequence[str]) -> ExecResult:
    raise TimeoutError


async def test_exec_timeout_is_a_failure(tmp_path: Path, runtime: FakeRuntime) -> None:
    runtime.on_exec("web", too_slow)

    assert await run(tmp_path, runtime) == Outcome(OutcomeKind.FAILURE, 'command "check disk $(WHAT) $(NO)" timed out')


async def test_exec_timeout_is_ignored_without_the_gate(tmp_path: Path, runtime: FakeRuntime) -> None:
    runtime.on_exec("web", too_slow)

    assert (await run(tmp_path, runtime, ExecProbeTimeout=False)).kind is OutcomeKind.IGNORED


async def test_runtime_error_does_not_count_for_the_container(tmp_path: Path, runtime: FakeRuntime) -> None:
    runtime.fail("exec_sync", RuntimeUnavailable("gone"))

    with pytest.raises(ProbeError, match="gone"):
        await run(tmp_path, runtime)


async def test_probe_without_action_is_an_error(tmp_path: Path, runtime: FakeRuntime) -> None:
    with pytest.raises(ProbeError, match="missing probe handler"):
        await run(tmp_path, runtime, Probe())


def test_commands_expand_literal_variables_only() -> None:
    assert static_command(["$(WHAT)", "$(SECRET)"], CONTAINER) == ["disk", "$(SECRET)"]


def test_url_has_the_pod_ip_unless_a_host_is_set() -> None:
    target = Target(CONTAINER, "id", "10.0.0.1")

    assert http_url(HttpGetAction(port="http", path="/x"), target) == "http://10.0.0.1:8080/x"
    assert http_url(HttpGetAction(port=1, host="h", scheme="HTTPS"), target) == "https://h:1/"
    with pytest.raises(ProbeError, match="no IP"):
        http_url(HttpGetAction(port=1), Target(CONTAINER, "id", ""))


def test_port_by_name_or_number() -> None:
    assert [find_port(port, CONTAINER) for port in (80, "http", "81")] == [80, 8080, 81]
    for port, problem in (("admin", "couldn't find port: admin"), (0, "invalid port"), (70000, "invalid port")):
        with pytest.raises(ProbeError, match=problem):
            find_port(port, CONTAINER)
