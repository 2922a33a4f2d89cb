"""``nodeagent [run]``: run the daemon."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import uvloop

from nodeagent.base.aio import SystemClock, TaskOwner
from nodeagent.base.logging import v_level, verbose
from nodeagent.base.malloc import trim_eagerly
from nodeagent.base.memory_trim import run_memory_trim
from nodeagent.base.service_manager import ServiceManager
from nodeagent.cli.exit_codes import ExitCode
from nodeagent.cli.printing import print_startup_error
from nodeagent.cli.reload import Prepared, Reload, prepare
from nodeagent.config.gate_usage import ineffective_settings
from nodeagent.config.load import masked
from nodeagent.config.rules.node import logging_settings
from nodeagent.errors import ConfigError, NodeAgentError, PluginError

if TYPE_CHECKING:
    from nodeagent.base.logging import Logging
    from nodeagent.config.load import Loaded

_log = logging.getLogger("nodeagent")


def run(argv: Sequence[str]) -> int:
    """Load the configuration and the plugins, then run the agent until a signal stops it.

    Does not return after a reload: the process executes itself again.

    :raises ConfigError: the configuration is invalid; contains all problems.
    :raises PluginError: a plugin cannot be loaded.
    """
    trim_eagerly()
    reload = Reload(argv)
    try:
        code = _run(reload)
    except (ConfigError, PluginError) as error:
        if not reload.fall_back():
            raise
        print_startup_error(error)
    if reload.pending:
        reload.reexec()
    return code


def _run(reload: Reload) -> int:
    """Run the agent once and return its exit code.

    :raises ConfigError: the configuration is invalid; contains all problems.
    :raises PluginError: a plugin cannot be loaded.
    """
    prepared = prepare(reload.arguments)
    loaded = prepared.loaded
    with _start_logging(loaded):
        log_configuration(loaded)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            try:
                return runner.run(_serve(prepared, reload))
            except NodeAgentError as error:
                _log.error("Failed to run the agent", extra={"err": str(error)})
                if not isinstance(error, ConfigError | PluginError):
                    return ExitCode.PROBLEMS
                reload.fall_back()
                return ExitCode.CONFIGURATION


def log_configuration(loaded: Loaded) -> None:
    """Log the release and the warnings; at verbosity 5 or higher also the complete configuration."""
    selected = loaded.release
    _log.info(
        "Selected compatibility release",
        extra={
            "release": str(selected.release),
            "origin": selected.origin.value,
            "serverVersion": selected.server_version,
            "nodeVersion": selected.node_version,
        },
    )
    for warning in loaded.warnings:
        _log.warning(warning)  # wording: ok
    without_effect = ineffective_settings(loaded.gates)
    if without_effect:
        _log.warning("Ignoring settings without effect", extra={"fields": ", ".join(without_effect)})
    if verbose(_log, 5):
        text = json.dumps(masked(loaded.config))
        _log.log(v_level(5), "KubeletConfiguration", extra={"configuration": text})


async def _serve(prepared: Prepared, reload: Reload) -> int:
    from nodeagent.agent import Agent

    manager = ServiceManager()

    def ready() -> None:
        reload.confirm()
        manager.ready(agent.describe())

    def restart() -> None:
        if not agent.stopping:
            tasks.start(reload_configuration(), "reload")

    agent = Agent(
        prepared.loaded,
        prepared.plugins,
        plugin_config=prepared.plugin_config,
        ready=ready,
        restart=restart,
        ping_watchdog=manager.ping,
    )
    resume_collection()
    loop = asyncio.get_running_loop()

    def stop(name: str) -> None:
        _log.info("Received signal, shutting down", extra={"signal": name})
        reload.cancel()
        exit_on_next_signal(loop)
        manager.stopping()
        agent.stop()

    async def reload_configuration() -> None:
        if await reload.prepare(prepared):
            manager.reloading()
            agent.stop()

    async with TaskOwner("process") as tasks:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop, number.name)
        if sys.stdin is not None and sys.stdin.isatty():  # Here, SIGHUP means that the terminal was closed.
            loop.add_signal_handler(signal.SIGHUP, stop, signal.SIGHUP.name)
        else:
            loop.add_signal_handler(signal.SIGHUP, restart)
        tasks.start(manager.run_watchdog(agent.describe, SystemClock()), "watchdog")
        tasks.start(run_memory_trim(SystemClock()), "memory trim")
        return await agent.run()


def resume_collection() -> None:
    """Enable the garbage collector; it ignores the objects so far, most of which exist as long as the process."""
    gc.freeze()
    gc.enable()


def exit_on_next_signal(loop: asyncio.AbstractEventLoop) -> None:
    """Make the next signal terminate the process immediately; Python's handler of SIGINT would print a traceback."""
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_DFL)


def _start_logging(loaded: Loaded) -> Logging:
    from nodeagent.base.logging import configure

    return configure(logging_settings(loaded.config.logging), gate_enabled=loaded.gates.enabled)
