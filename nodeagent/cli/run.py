"""``nodeagent [run]``: the daemon."""

from __future__ import annotations

import asyncio
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
from nodeagent.base.service_manager import ServiceManager
from nodeagent.cli.exit_codes import ExitCode
from nodeagent.cli.printing import print_refusal
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
    """Load the configuration and the plugins, then run the agent until a signal ends it or has it start anew.

    :raises ConfigError: with every problem of the configuration.
    :raises PluginError: a plugin cannot be loaded.
    """
    trim_eagerly()
    reload = Reload(argv)
    try:
        code = _run(reload)
    except (ConfigError, PluginError) as error:
        if not reload.fall_back():
            raise
        print_refusal(error)
    if reload.due:
        reload.start_anew()
    return code


def _run(reload: Reload) -> int:
    """Run the agent once and return its exit code.

    :raises ConfigError: with every problem of the configuration.
    :raises PluginError: a plugin cannot be loaded.
    """
    prepared = prepare(reload.arguments)
    loaded = prepared.loaded
    with _start_logging(loaded):
        tell_of(loaded)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            try:
                return runner.run(_serve(prepared, reload))
            except NodeAgentError as error:
                _log.error("Agent cannot go on", extra={"err": str(error)})
                if not isinstance(error, ConfigError | PluginError):
                    return ExitCode.PROBLEMS
                reload.fall_back()
                return ExitCode.CONFIGURATION


def tell_of(loaded: Loaded) -> None:
    """Log what deserves a word about the configuration, and all of it from verbosity 5 on."""
    for warning in loaded.warnings:
        _log.warning(warning)
    without_effect = ineffective_settings(loaded.config)
    if without_effect:
        _log.warning("Ignoring settings without effect", extra={"fields": ", ".join(without_effect)})
    if verbose(_log, 5):
        text = json.dumps(masked(loaded.config))
        _log.log(v_level(5), "Configuration in force", extra={"configuration": text})


async def _serve(prepared: Prepared, reload: Reload) -> int:
    from nodeagent.agent import Agent

    manager = ServiceManager()

    def ready() -> None:
        reload.settle()
        manager.ready(agent.describe())

    agent = Agent(prepared.loaded, prepared.plugins, plugin_settings=prepared.settings, ready=ready)
    loop = asyncio.get_running_loop()

    def stop(name: str) -> None:
        _log.info("Signal received, stopping", extra={"signal": name})
        reload.cancel()
        end_at_the_next_signal(loop)
        manager.stopping()
        agent.stop()

    def hang_up() -> None:
        if not agent.stopping:
            tasks.start(take_over(), "reload")

    async def take_over() -> None:
        if await reload.take(prepared):
            manager.reloading()
            agent.stop()

    async with TaskOwner("service manager") as tasks:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop, number.name)
        if sys.stdin is not None and sys.stdin.isatty():  # the terminal has gone
            loop.add_signal_handler(signal.SIGHUP, stop, signal.SIGHUP.name)
        else:
            loop.add_signal_handler(signal.SIGHUP, hang_up)
        tasks.start(manager.run_watchdog(agent.describe, SystemClock()), "signs of life")
        return await agent.run()


def end_at_the_next_signal(loop: asyncio.AbstractEventLoop) -> None:
    """Have another signal end the process at once; of Python's own answer to SIGINT a traceback would be left."""
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_DFL)


def _start_logging(loaded: Loaded) -> Logging:
    from nodeagent.base.logging import configure

    return configure(logging_settings(loaded.config.logging), gate_enabled=loaded.gates.enabled)
