"""Changes of plugins while the agent runs: ``nodeagent plugins enable``, ``disable`` and ``reload``.

A change lasts until the agent restarts, which applies the configuration again. New code is imported and configured
before the previous code stops being used; if that fails, the previous code stays in use.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from nodeagent.base.structs import Struct
from nodeagent.contracts.background import BackgroundLoop
from nodeagent.contracts.context import ConfigContext, ServerContext
from nodeagent.contracts.local import LocalQuery
from nodeagent.contracts.plugin_report import CHANGE_QUERY, PluginAction, PluginChanged, PluginChangeRequest
from nodeagent.contracts.volumes import ChangeableVolumeManager, VolumeKind
from nodeagent.errors import NodeAgentError, PluginError
from nodeagent.plugin_schemas import validate_in_subprocess
from nodeagent.plugin_scopes import PluginScopes
from nodeagent.pluginmanager import GROUP, PluginManager
from nodeagent.pluginmanager.discovery import distribution_of, entry_points_by_name
from nodeagent.pluginmanager.plugin_modules import import_again, package_of, restore_modules
from nodeagent.pluginmanager.records import Withdrawn

DISABLED = "disabled"
_KINDS, _ROUTES = "nodeagent_provide_volume_kinds", "nodeagent_provide_routes"
_LOOPS, _CHECKS = "nodeagent_provide_background_loops", "nodeagent_provide_node_checks"
_CHANGEABLE = frozenset(
    {
        "nodeagent_settings_schema",
        "nodeagent_check_settings",
        "nodeagent_configure",
        "nodeagent_components_created",
        _KINDS,
        _ROUTES,
        _LOOPS,
        _CHECKS,
    }
)
"""Provider hooks whose results can be replaced while the agent runs."""
_REASONS: Mapping[str, str] = {
    "nodeagent_provide_pod_sources": "its pods would be removed from the node",
    "nodeagent_provide_device_providers": "its devices are assigned to containers",
    "nodeagent_provide_claim_drivers": "its devices are prepared for containers",
    "nodeagent_provide_persistent_volume_kinds": "its volumes are mounted, and the API server attaches them",
    "nodeagent_provide_local_queries": "the local socket serves its queries",
    "nodeagent_provide_authenticators": "the secure port must not be served without it",
    "nodeagent_provide_authorizer": "the secure port must not be served without it",
}
_DEFAULT_REASON = "other components use the object that it returned at the start"

_log = logging.getLogger(__name__)


class LoopHost(Protocol):
    """The part of the agent that runs the background loops of plugins."""

    def start_loops(self, loops: Sequence[tuple[str, BackgroundLoop]]) -> None:
        """Run loops, each with the name of its plugin object."""
        ...

    async def stop_loops(self, plugin: str) -> None:
        """Cancel the loops of a plugin."""
        ...


class Components(Struct, frozen=True):
    """The components of the agent that use the results of provider hooks."""

    configured: ConfigContext
    context: Callable[[], ServerContext]
    loops: LoopHost
    change_routes: Callable[[], Awaitable[None]]
    """Provides the routes again; raises an exception and keeps the previous ones if that fails."""


class _Disabled(Struct, frozen=True):
    """The objects of a disabled plugin."""

    withdrawn: Withdrawn
    kinds: Sequence[VolumeKind]
    loops: Sequence[BackgroundLoop]


class PluginChanges:
    """Changes one plugin at a time."""

    def __init__(self, plugins: PluginManager, scopes: PluginScopes, components: Components) -> None:
        self._plugins, self._scopes, self._components = plugins, scopes, components
        self._lock = asyncio.Lock()
        self._disabled: dict[str, _Disabled] = {}
        """Disabled plugins without an entry point, which other plugins have registered."""

    def local_queries(self) -> Sequence[LocalQuery]:
        """Return the local queries."""
        return (LocalQuery(CHANGE_QUERY, PluginChangeRequest, self.change),)

    async def change(self, request: PluginChangeRequest) -> PluginChanged:
        """Apply *request*.

        :raises PluginError: the plugin cannot be changed, or its new code fails; nothing was changed.
        """
        name = request.plugin
        async with self._lock:
            if request.action is PluginAction.DISABLE:
                await self._disable(name)
            elif request.action is PluginAction.ENABLE:
                await self._enable(name)
            else:
                await self._reload(name)
        info = self._info(name)
        _log.info("Changed plugin", extra={"plugin": name, "action": str(request.action), "version": info.version})
        hooks = self._plugins.hooks_of(name)
        return PluginChanged(name, info.version, list(hooks), _notes(request.action, hooks))

    # --- actions --------------------------------------------------------------------------------------------

    async def _disable(self, name: str) -> None:
        info = self._info(name)
        if info.state == DISABLED:
            raise PluginError(name, "is disabled already")
        if self._plugins.is_listed_as_required(name):
            raise PluginError(name, "is required by requiredPlugins of --plugin-config")
        self._reject_fixed(name)
        kinds, loops = self._plugins.provided(name, _KINDS), self._plugins.provided(name, _LOOPS)
        had_routes = bool(self._plugins.provided(name, _ROUTES))
        self._replace_kinds(name, kinds, ())
        withdrawn = self._plugins.withdraw(name, DISABLED)
        if had_routes:
            try:
                await self._components.change_routes()
            except Exception:
                self._plugins.restore(name, withdrawn)
                self._replace_kinds(name, (), kinds)
                raise
        if not _is_installed(name):
            self._disabled[name] = _Disabled(withdrawn, kinds, loops)
        await self._close(name)

    async def _enable(self, name: str) -> None:
        info = self._plugins.info(name)
        if info is not None and info.state == "loaded":
            raise PluginError(name, "is enabled already")
        if name not in self._disabled:
            await self._replace(name)
            return
        disabled = self._disabled.pop(name)
        self._plugins.restore(name, disabled.withdrawn)
        self._replace_kinds(name, (), disabled.kinds)
        self._components.loops.start_loops([(name, loop) for loop in disabled.loops])

    async def _reload(self, name: str) -> None:
        if self._info(name).state != "loaded":
            raise PluginError(name, f"is {self._info(name).state}; enable it instead")
        if not _is_installed(name) and (loops := self._plugins.provided(name, _LOOPS)):
            await self._components.loops.stop_loops(name)
            self._components.loops.start_loops([(name, loop) for loop in loops])
            return
        self._reject_fixed(name)
        await self._replace(name)

    async def _replace(self, name: str) -> None:
        """Load the installed code of a plugin instead of its current objects, if it has any."""
        entries = entry_points_by_name(importlib.metadata.entry_points(group=GROUP))
        if name not in entries:
            raise PluginError(name, "has no entry point: it is not installed, or another plugin registers it")
        entry = entries[name]
        package = package_of(entry, entries.values())
        try:
            plugin, modules = await asyncio.to_thread(import_again, entry, package)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            raise PluginError(name, f"failed to import {entry.value}: {error!r}") from error
        try:
            await self._validate(name, plugin)
        except BaseException:
            restore_modules(package, modules)
            raise
        known = self._plugins.info(name)
        kinds = self._plugins.provided(name, _KINDS)
        previous = self._plugins.withdraw(name, known.state if known is not None else "")
        scope = self._scopes.detach(name)
        try:
            version = distribution_of(entry)
            self._plugins.register(plugin, name=name, version=version[1], origin=version[0])
            loops = self._initialize(name)
            new_kinds = self._plugins.provided(name, _KINDS)
            self._replace_kinds(name, kinds, new_kinds)
            try:
                if _ROUTES in {*self._plugins.hooks_of(name), *(hook for hook, _ in previous.provided)}:
                    await self._components.change_routes()
            except BaseException:
                self._replace_kinds(name, new_kinds, kinds)
                raise
        except BaseException as error:
            self._plugins.withdraw(name, "")
            self._plugins.restore(name, previous)
            failed = self._scopes.detach(name)
            self._scopes.attach(name, scope)
            restore_modules(package, modules)
            if failed is not None:
                await failed.close()
            if isinstance(error, NodeAgentError | asyncio.CancelledError):
                raise
            raise PluginError(name, f"failed to start: {error!r}") from error
        await self._components.loops.stop_loops(name)
        self._components.loops.start_loops(loops)
        if scope is not None:
            await scope.close()

    def _initialize(self, name: str) -> list[tuple[str, BackgroundLoop]]:
        """Call the hooks of the start; return the loops of the plugin.

        Not a coroutine, so that no call of a hook takes place between the previous and the new code.
        """
        plugins, context = self._plugins, self._components.context()
        self._reject_fixed(name)
        configured = self._components.configured
        plugins.provide_from(name, "nodeagent_configure", config=configured.config, context=configured, plugins=plugins)
        self._reject_fixed(name)
        plugins.provide_from(name, "nodeagent_components_created", context=context, plugins=plugins)
        self._reject_fixed(name)
        plugins.provide_from(name, _KINDS, context=context)
        found = plugins.provide_from(name, _LOOPS, context=context, plugins=plugins)
        return [(each.plugin, loop) for each in found for loop in each.value]

    async def _validate(self, name: str, plugin: object) -> None:
        """Check the hooks and the settings of new code before it is used."""
        staging = self._plugins.with_same_hooks()
        staging.register(plugin, name=name)
        settings = self._components.configured.plugin_settings
        if name not in settings:
            return
        schemas = {each.plugin: each.value for each in staging.provide_from(name, "nodeagent_settings_schema")}
        if not schemas:
            raise PluginError(name, f"accepts no settings, but plugins.{name} of --plugin-config contains some")
        mismatches = await asyncio.to_thread(validate_in_subprocess, schemas, {name: settings[name]})
        if mismatches:
            text = "; ".join(f"plugins.{each.plugin}{each.path}: {each.message}" for each in mismatches)
            raise PluginError(name, f"rejects its settings: {text}")

    # --- helpers --------------------------------------------------------------------------------------------

    async def _close(self, name: str) -> None:
        await self._components.loops.stop_loops(name)
        scope = self._scopes.detach(name)
        if scope is not None:
            await scope.close()

    def _info(self, name: str) -> Any:
        info = self._plugins.info(name)
        if info is None:
            raise PluginError(name, "is not installed")
        if info.plugin != info.name:
            raise PluginError(name, f"is a part of plugin {info.plugin}")
        return info

    def _reject_fixed(self, name: str) -> None:
        """Raise an error if the plugin implements hooks whose results cannot be replaced."""
        fixed = [hook for hook in self._plugins.hooks_of(name) if not self._is_changeable(hook)]
        if fixed:
            reasons = ", ".join(f"{hook} ({_REASONS.get(hook, _DEFAULT_REASON)})" for hook in fixed)
            raise PluginError(
                name,
                f"cannot be changed while the agent runs: it implements {reasons}; "
                "restart the agent instead, pods keep running",
            )

    def _replace_kinds(self, name: str, removed: Sequence[VolumeKind], added: Sequence[VolumeKind]) -> None:
        if not removed and not added:
            return
        volumes = self._components.context().volumes
        if not isinstance(volumes, ChangeableVolumeManager):
            raise PluginError(name, "cannot be changed while the agent runs: the volume manager has fixed kinds")
        try:
            volumes.replace_kinds(removed, added)
        except NodeAgentError as error:
            raise PluginError(name, str(error)) from error

    def _is_changeable(self, hook: str) -> bool:
        return hook in _CHANGEABLE or self._plugins.specifications.is_async(hook)


def _is_installed(name: str) -> bool:
    """Return whether the plugin has an entry point; otherwise another plugin has registered it."""
    return name in entry_points_by_name(importlib.metadata.entry_points(group=GROUP))


def _notes(action: PluginAction, hooks: Sequence[str]) -> list[str]:
    notes = ["The change lasts until the agent restarts, which applies --disable-plugin and --plugin-config again."]
    if action is not PluginAction.DISABLE:
        notes.append("Settings are those that the agent read at its start.")
    if "nodeagent_admit_pod" in hooks:
        notes.append("Admission applies to new pods; pods that run are not decided on again.")
    if _CHECKS in hooks:
        notes.append("Commands such as doctor load the installed code themselves.")
    return notes
