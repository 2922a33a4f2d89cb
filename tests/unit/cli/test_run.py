"""Tests for the daemon's signal handling, its memory management and the log messages about its configuration."""

from __future__ import annotations

import asyncio
import gc
import signal
from types import SimpleNamespace

from nodeagent.base import memory_trim
from nodeagent.base.logging import v_level
from nodeagent.cli import run
from nodeagent.cli.main import main
from nodeagent.cli.run import exit_on_next_signal, log_configuration
from nodeagent.config.load import load_configuration
from nodeagent.errors import ConfigError, Problem


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
