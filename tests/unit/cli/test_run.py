"""Tests for the daemon's signal handling, its memory management and the log messages about its configuration."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nodeagent.base import memory_trim
from nodeagent.base.logging import v_level
from nodeagent.cli import run
from nodeagent.cli.main import main
from nodeagent.cli.run import exit_on_next_signal, log_configuration
from nodeagent.config.load import load_configuration
from nodeagent.errors import ConfigError, PluginError, Problem, RuntimeUnavailable


async def test_second_signal_terminates_the_process_without_traceback():
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        for number in numbers:
            loop.add_signal_handler(number, lambda: None)

        exit_on_next_signal(loop)

        assert {signal.getsignal(number) for number in numbers} == {signal.SIG_DFL}
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_configuration_is_logged_at_verbosity_5_with_masked_headers(caplog):
    loaded = load_configuration(
        [
            "--container-runtime-endpoint=unix:///run/x.sock",
            "--manifest-url=https://example.com",
            "--manifest-url-header=Authorization:letmein",
        ]
    )
    caplog.set_level(v_level(4), "nodeagent")
    log_configuration(loaded)
    assert "KubeletConfiguration" not in caplog.messages

    caplog.set_level(v_level(5), "nodeagent")
    log_configuration(loaded)

    record = next(record for record in caplog.records if record.message == "KubeletConfiguration")
    assert '"containerRuntimeEndpoint": "unix:///run/x.sock"' in record.configuration
    assert '"mode": "Webhook"' in record.configuration
    assert "letmein" not in record.configuration


async def test_free_memory_is_returned_while_the_agent_runs(monkeypatch):
    trims = asyncio.Event()

    class Agent:
        def __init__(self, *args, **options): ...

        async def run(self):
            await asyncio.wait_for(trims.wait(), 10)
            return 0

        def describe(self):
            return ""

    loop = asyncio.get_running_loop()
    monkeypatch.setattr("nodeagent.agent.Agent", Agent)
    monkeypatch.setattr(memory_trim, "START_SECONDS", 0.0)
    monkeypatch.setattr(memory_trim, "trim", lambda: loop.call_soon_threadsafe(trims.set))
    monkeypatch.setattr(run, "resume_collection", lambda: None)
    monkeypatch.setattr(loop, "add_signal_handler", lambda *_: None)

    prepared = SimpleNamespace(loaded=None, plugins=None, plugin_config=None)
    assert await run._serve(prepared, reload=None) == 0


def test_garbage_collector_runs_after_the_start_and_ignores_old_objects(monkeypatch):
    during_start = []

    def start(arguments):
        during_start.append(gc.isenabled())
        run.resume_collection()
        during_start.append(gc.isenabled())
        return 0

    monkeypatch.setattr(run, "run", start)
    frozen = gc.get_freeze_count()
    try:
        assert main(["run"]) == 0
        assert gc.get_freeze_count() > frozen
    finally:
        gc.unfreeze()

    assert during_start == [False, True]


def test_garbage_collector_runs_after_a_failed_start(monkeypatch):
    def fail(arguments):
        raise ConfigError([Problem("flags", "", None, "is invalid")])

    monkeypatch.setattr(run, "run", fail)

    assert main(["run"]) == 2
    assert gc.isenabled()


class Agent:
    """Fake agent that runs until it is stopped, or fails."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.options, self.stopping, self.stopped = options, False, asyncio.Event()

    async def run(self) -> int:
        await self.stopped.wait()
        return 0

    def stop(self) -> None:
        self.stopped.set()

    def describe(self) -> str:
        return ""


class FakeReload:
    """Fake of the reload; counts the calls."""

    def __init__(self, *, valid: bool = True) -> None:
        self.valid, self.calls = valid, list[str]()

    async def prepare(self, prepared: Any) -> bool:
        self.calls.append("prepare")
        return self.valid

    def confirm(self) -> None:
        self.calls.append("confirm")

    def cancel(self) -> None:
        self.calls.append("cancel")


@dataclass
class Serving:
    """The running process: its agent, and the handlers of signals."""

    reload: FakeReload
    agents: list[Agent] = field(default_factory=list)
    handlers: dict[int, Callable[[], None]] = field(default_factory=dict)

    def receive(self, number: int) -> None:
        self.handlers[number]()

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Callable[..., AbstractAsyncContextManager[Serving]]:
    """Return a function that runs the process with a fake agent."""

    @asynccontextmanager
    async def serving(*, valid: bool = True) -> AsyncIterator[Serving]:
        process = Serving(FakeReload(valid=valid))

        def create(*args: Any, **options: Any) -> Agent:
            process.agents.append(Agent(*args, **options))
            return process.agents[-1]

        loop = asyncio.get_running_loop()
        monkeypatch.setattr("nodeagent.agent.Agent", create)
        monkeypatch.setattr(run, "resume_collection", lambda: None)
        monkeypatch.setattr(run, "exit_on_next_signal", lambda loop: None)

        def add_handler(number: int, handler: Callable[..., None], *arguments: Any) -> None:
            process.handlers[number] = lambda: handler(*arguments)

        monkeypatch.setattr(loop, "add_signal_handler", add_handler)
        prepared: Any = SimpleNamespace(loaded=None, plugins=None, plugin_config=None)
        task = asyncio.create_task(run._serve(prepared, process.reload))  # type: ignore[arg-type]
        await process.settle()
        try:
            yield process
        finally:
            process.agents[0].stop()
            assert await task == 0

    return serving


class Input:
    def __init__(self, *, terminal: bool) -> None:
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize(
    ("stdin", "reloads"), [(Input(terminal=True), False), (Input(terminal=False), True), (None, True)]
)
async def test_sighup_reloads_unless_standard_input_is_a_terminal(serve, monkeypatch, stdin, reloads):
    monkeypatch.setattr(sys, "stdin", stdin)
    async with serve() as process:
        process.receive(signal.SIGHUP)
        await process.settle()

        assert process.reload.calls == (["prepare"] if reloads else ["cancel"])
        assert process.agents[0].stopped.is_set()


async def test_invalid_configuration_does_not_stop_the_agent(serve, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    async with serve(valid=False) as process:
        process.receive(signal.SIGHUP)
        await process.settle()

        assert process.reload.calls == ["prepare"]
        assert not process.agents[0].stopped.is_set()


async def test_stopping_agent_is_not_reloaded(serve, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    async with serve() as process:
        process.agents[0].stopping = True
        process.receive(signal.SIGHUP)
        await process.settle()

        assert process.reload.calls == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_termination_cancels_a_reload_and_stops_the_agent(serve, number):
    async with serve() as process:
        process.agents[0].options["ready"]()
        process.receive(number)

        assert process.reload.calls == ["confirm", "cancel"]
        assert process.agents[0].stopped.is_set()


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., int]]:
    """Return a function that runs the daemon with an agent that returns 0 or raises an error."""

    def run_with(error: Exception | None, *arguments: str) -> int:
        async def result(prepared: Any, reload: Any) -> int:
            if error is not None:
                raise error
            return 0

        monkeypatch.setattr(run, "_serve", result)
        monkeypatch.setattr(run, "_start_logging", lambda loaded: nullcontext())
        monkeypatch.setattr(run, "trim_eagerly", lambda: None)
        endpoint = "--container-runtime-endpoint=unix:///run/x.sock"
        return run.run([endpoint, f"--root-dir={tmp_path}", *arguments])

    numbers = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
    handlers = {number: signal.getsignal(number) for number in numbers}
    yield run_with
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (None, 0),
        (RuntimeUnavailable("no socket"), 1),
        (ConfigError([Problem("flags", "", None, "is invalid")]), 2),
        (PluginError("p", "is broken"), 2),
    ],
)
def test_exit_code_depends_on_the_error_of_the_agent(start, caplog, error, code):
    assert start(error) == code

    failures = [record.__dict__["err"] for record in caplog.records if record.message == "Failed to run the agent"]
    assert failures == ([] if error is None else [str(error)])


@pytest.mark.parametrize("failing", ["flags", "agent"])
def test_failed_start_after_a_reload_falls_back(start, monkeypatch, tmp_path, failing):
    processes: list[dict[str, str]] = []
    monkeypatch.setenv("NODEAGENT_PREVIOUS_CONFIGURATION", str(tmp_path))

    def execve(_path: str, _arguments: list[str], environment: dict[str, str]) -> None:
        processes.append(environment)
        raise SystemExit(0)

    monkeypatch.setattr(os, "execve", execve)
    error = ConfigError([Problem("cgroups", "", None, "are missing")]) if failing == "agent" else None

    with pytest.raises(SystemExit):
        start(error, *(["--max-pods=-1"] if failing == "flags" else []))

    assert [each.get("NODEAGENT_FALL_BACK") for each in processes] == ["yes"]


def test_invalid_first_configuration_is_not_replaced(start):
    with pytest.raises(ConfigError, match="maxPods"):
        start(None, "--max-pods=-1")


def test_transient_failure_after_a_reload_does_not_fall_back(start, monkeypatch, tmp_path):
    monkeypatch.setenv("NODEAGENT_PREVIOUS_CONFIGURATION", str(tmp_path))

    assert start(RuntimeUnavailable("no socket")) == 1
