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
from nodeagent_plugins.external_plugins.container_mutation import ContainerMutation
from nodeagent_plugins.external_plugins.credentials import CredentialHooks
from nodeagent_plugins.external_plugins.eviction import Eviction
from nodeagent_plugins.external_plugins.hook_calls import HookCalls
from nodeagent_plugins.external_plugins.node_report import NodeReporter
from nodeagent_plugins.external_plugins.notifications import Notifications
from nodeagent_plugins.external_plugins.pod_source import PodSourceHooks
from nodeagent_plugins.external_plugins.process import SOCKET_NAME, Cgroup, Executable, owner_of
from nodeagent_plugins.external_plugins.session import Session
from nodeagent_plugins.external_plugins.settings import ExternalPlugin, parse
from nodeagent_plugins.external_plugins.supervision import Supervisor, supervise_executable, supervise_socket
from nodeagent_plugins.external_plugins.volumes import Volumes

_log = logging.getLogger(__name__)
_RUN = Path("/run/nodeagent")

CALL_HOOKS: Mapping[str, Callable[[HookCalls], object]] = MappingProxyType(
    {
        "admission": Admission,
        "eviction": Eviction,
        "container_mutation": ContainerMutation,
        "notifications": Notifications,
        "node_report": NodeReporter,
    }
)
"""Class with the async hooks of each capability."""
PROVIDER_HOOKS: Mapping[str, Callable[[Session], object]] = MappingProxyType(
    {"volumes": Volumes, "credentials": CredentialHooks, "pod_source": PodSourceHooks}
)
"""Class with the provider hooks of each capability."""


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
        if "node_report" in self._session.plugin.capabilities:
            self._session.on_connected.append(context.trigger_node_status)
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
            cgroup = Cgroup(cgroups, f"{plugin.name}_{_agent_id(context.root_dir)}") if cgroups is not None else None
            return Executable(plugin, self._directory / plugin.name, owner, cgroup, context.clock)

        return supervise_executable(session, make, context.clock)


def register_plugins(settings: Mapping[str, Any], context: ConfigContext, plugins: PluginHost) -> None:
    """Register an object for each configured plugin."""
    configured = parse(settings)
    names = [plugin.name for plugin in configured if plugin.command and plugin.user is None]
    directory = socket_directory(settings, context.root_dir)
    for plugin in configured:
        session = Session(
            plugin,
            context.node_name,
            context.clock,
            on_failure=partial(plugins.record_failure, plugin.name),
        )
        session.on_connected.append(partial(_connected, session, plugins))
        call = HookCalls(session, plugins.deadline_of)
        parts = [make(call) for capability, make in CALL_HOOKS.items() if capability in plugin.capabilities]
        providers = [make(session) for name, make in PROVIDER_HOOKS.items() if name in plugin.capabilities]
        hooks = Hooks(Lifetime(session, directory, names), *parts, *providers)
        plugins.register(hooks, name=plugin.name, origin=plugin.origin)


def _connected(session: Session, plugins: PluginHost) -> None:
    plugins.record_recovery(session.plugin.name, version=session.version)


def socket_of(plugin: ExternalPlugin, directory: Path) -> str:
    """Return the path of a plugin's socket."""
    return str(directory / plugin.name / SOCKET_NAME) if plugin.command else plugin.socket


def socket_directory(settings: Mapping[str, Any], root_dir: Path) -> Path:
    """Return the directory of sockets, which other users can traverse, separate for each agent of the host."""
    if configured := settings.get("directory"):
        return Path(configured)
    if os.geteuid() != 0:
        return root_dir / "external-plugins"
    return _RUN / _agent_id(root_dir)


def _agent_id(root_dir: Path) -> str:
    """Return an ID that differs between the agents of a host, so that they do not kill each other's plugins."""
    return hashlib.blake2b(str(root_dir).encode(), digest_size=4).hexdigest()
