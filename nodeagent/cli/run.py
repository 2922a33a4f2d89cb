"""``nodeagent [run]``: the daemon."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING

import uvloop

from nodeagent.base import identity
from nodeagent.base.aio import SystemClock, TaskOwner
from nodeagent.base.allocator import give_back_early
from nodeagent.base.service_manager import ServiceManager
from nodeagent.cli.exit_codes import ExitCode
from nodeagent.config.load import load_configuration
from nodeagent.config.rules.node import logging_settings
from nodeagent.config.unimplemented import unimplemented
from nodeagent.errors import ConfigError, NodeAgentError, PluginError
from nodeagent.plugin_settings import load_plugin_settings
from nodeagent.pluginmanager import PluginManager

if TYPE_CHECKING:
    from nodeagent.base.logging import Logging
    from nodeagent.config.load import Loaded

_log = logging.getLogger("nodeagent")


def run(argv: Sequence[str]) -> int:
    """Load the configuration and the plugins, then run the agent until a signal ends it.

    :raises ConfigError: with every problem of the configuration.
    :raises PluginError: a plugin cannot be loaded.
    """
    give_back_early()
    loaded = load_configuration(argv)
    identity.configure(loaded.settings.identity)
    plugins = PluginManager()
    plugins.load_entry_points(loaded.settings.disabled_plugins)
    settings = load_plugin_settings(loaded.settings.plugin_config, plugins)
    with _start_logging(loaded):
        for warning in loaded.warnings:
            _log.warning(warning)
        without_effect = unimplemented(loaded.config)
        if without_effect:
            _log.warning("Some fields have no effect yet", extra={"fields": ", ".join(without_effect)})
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            try:
                return runner.run(_serve(loaded, plugins, settings))
            except NodeAgentError as error:
                _log.error("Agent cannot go on", extra={"err": str(error)})
                return ExitCode.CONFIGURATION if isinstance(error, ConfigError | PluginError) else ExitCode.PROBLEMS


async def _serve(loaded: Loaded, plugins: PluginManager, settings: dict[str, dict[str, object]]) -> int:
    from nodeagent.agent import Agent

    manager = ServiceManager()

    def ready() -> None:
        manager.ready(agent.describe())

    agent = Agent(loaded, plugins, plugin_settings=settings, ready=ready)
    loop = asyncio.get_running_loop()

    def stop(name: str) -> None:
        _log.info("Signal received, stopping", extra={"signal": name})
        end_at_the_next_signal(loop)
        manager.stopping()
        agent.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number.name)
    async with TaskOwner("service manager") as tasks:
        tasks.start(manager.keep_told(agent.describe, SystemClock()), "signs of life")
        return await agent.run()


def end_at_the_next_signal(loop: asyncio.AbstractEventLoop) -> None:
    """Have another signal end the process at once; of Python's own answer to SIGINT a traceback would be left."""
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_DFL)


def _start_logging(loaded: Loaded) -> Logging:
    from nodeagent.base.logging import configure

    return configure(logging_settings(loaded.config.logging), gate_enabled=loaded.gates.enabled)
