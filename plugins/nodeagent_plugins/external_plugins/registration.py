"""Registration of the configured plugins with the agent, each under a separate name."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nodeagent import hookimpl
from nodeagent.contracts.background import BackgroundLoop
from nodeagent.contracts.cgroups import ProcessCgroups
from nodeagent.contracts.context import AgentContext, ConfigContext
from nodeagent.contracts.hooks import PluginHost
from nodeagent_plugins.external_plugins.admission import Admission
from nodeagent_plugins.external_plugins.hook_calls import HookCalls
from nodeagent_plugins.external_plugins.process import Executable, owner_of
from nodeagent_plugins.external_plugins.session import Session
from nodeagent_plugins.external_plugins.settings import ExternalPlugin, parse
from nodeagent_plugins.external_plugins.supervision import Supervisor, supervise_executable, supervise_socket

_log = logging.getLogger(__name__)
_RUN = Path("/run/nodeagent")

HOOKS: Mapping[str, Callable[[HookCalls], object]] = MappingProxyType({"admission": Admission})
"""Class with the hooks of each capability that needs nothing but calls."""


class Hooks:
    """Plugin object with the hooks of several objects."""

    def __init__(self, *parts: object) -> None:
        for part in parts:
            for name in dir(part):
                if name.startswith("nodeagent_"):
                    setattr(self, name, getattr(part, name))


class Lifetime:
    """Hook that keeps the plugin connected while the agent runs.

    :param names: names of all executables without a configured user.
    """

    def __init__(self, session: Session, directory: Path, names: Sequence[str]) -> None:
        self._session, self._directory, self._names = session, directory, names

    @hookimpl
    def nodeagent_provide_background_loops(self, context: AgentContext) -> Sequence[BackgroundLoop]:
        return (self._supervisor(context),)

    def _supervisor(self, context: AgentContext) -> Supervisor:
        session, plugin = self._session, self._session.plugin
        if not plugin.command:
            return supervise_socket(session, context.clock)
        cgroups = context.cgroups if isinstance(context.cgroups, ProcessCgroups) else None
        if cgroups is None:
            _log.warning("Running out-of-process plugin without limits", extra={"plugin": plugin.name})

        async def make() -> Executable:
            owner = await asyncio.to_thread(owner_of, plugin, self._names) if os.geteuid() == 0 else None
            return Executable(plugin, self._directory / plugin.name, owner, cgroups, context.clock)

        return supervise_executable(session, make, context.clock)


def register_plugins(settings: Mapping[str, Any], context: ConfigContext, plugins: PluginHost) -> None:
    """Register an object for each configured plugin."""
    configured = parse(settings)
    names = [plugin.name for plugin in configured if plugin.command and plugin.user is None]
    directory = Path(settings.get("directory") or default_directory(context.root_dir, is_root=os.geteuid() == 0))
    for plugin in configured:
        session = Session(
            plugin,
            context.node_name,
            context.clock,
            on_failure=partial(plugins.record_failure, plugin.name),
            on_connected=partial(plugins.record_recovery, plugin.name),
        )
        call = HookCalls(session, plugins.deadline_of)
        parts = [_part(capability, plugin, call) for capability in sorted(plugin.capabilities)]
        hooks = Hooks(Lifetime(session, directory, names), *parts)
        plugins.register(hooks, name=plugin.name, origin=plugin.origin)


def default_directory(root_dir: Path, *, is_root: bool) -> Path:
    """Return the directory of sockets, which other users can traverse, separate for each agent of the host."""
    if not is_root:
        return root_dir / "external-plugins"
    return _RUN / hashlib.blake2b(str(root_dir).encode(), digest_size=4).hexdigest()


def _part(capability: str, plugin: ExternalPlugin, call: HookCalls) -> object:
    return HOOKS[capability](call)
