"""Reconciler: registers and deregisters plugins as their sockets are created and removed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from nodeagent.base.aio import Backoff, Clock, TaskOwner
from nodeagent.base.aio.waker import wait_for
from nodeagent.base.metrics import SampledGauge
from nodeagent.base.structs import Struct
from nodeagent.contracts.plugin_registry import PluginHandler, RegisteredPlugin
from nodeagent.errors import PluginRegistrationError
from nodeagent_plugins.plugin_registry.directory import DirectoryWatch, Stamp, scan
from nodeagent_plugins.plugin_registry.protocol import Session, check_description, check_endpoint, open_session

INITIAL_SECONDS, MAX_SECONDS = 0.5, 122.0
_POLL_SECONDS, _CHECK_SECONDS = 1.0, 60.0
"""Interval of scans without and with notifications; the latter finds a directory that was replaced."""

TOTAL_PLUGINS = SampledGauge(
    "plugin_manager_total_plugins", "Number of plugins in Plugin Manager", ("socket_path", "state"), prefixed=False
)
_log = logging.getLogger(__name__)


class _Registered(Struct, frozen=True):
    plugin: RegisteredPlugin
    stamp: Stamp


class Reconciler:
    """Compares the sockets in a directory with the registered plugins.

    Each socket has a separate task with a back-off, so that a plugin that does not respond delays no other plugin.
    A socket that was created again is a new registration, which follows the deregistration of the previous one. No
    plugin is deregistered when the agent stops.

    :param directory: the watched directory.
    :param handlers: the handlers by type of plugin.
    """

    name = "plugin registry"

    def __init__(self, directory: Path, handlers: Mapping[str, PluginHandler], clock: Clock) -> None:
        self._directory, self._handlers, self._clock = directory, handlers, clock
        self._desired: dict[str, Stamp] = {}
        self._registered: dict[str, _Registered] = {}
        self._changes: dict[str, asyncio.Event] = {}
        self._links: frozenset[str] = frozenset()
        TOTAL_PLUGINS.sample = self._count

    async def run(self) -> None:
        """Reconcile until cancelled.

        :raises OSError: the directory cannot be created or read.
        """
        async with DirectoryWatch() as watch, TaskOwner("plugin registry") as tasks:
            self._changes.clear()
            while True:
                watch.changed.clear()
                snapshot = await asyncio.to_thread(scan, self._directory)
                if watch.watch(snapshot.directories):
                    continue
                self._report_links(snapshot.links)
                self._apply(snapshot.sockets, tasks)
                await wait_for(watch.changed, self._clock, _CHECK_SECONDS if watch.complete else _POLL_SECONDS)

    def _report_links(self, links: frozenset[str]) -> None:
        for path in sorted(links - self._links):
            _log.warning("Ignoring symbolic link in plugin directory", extra={"path": path})
        self._links = links

    def _apply(self, sockets: dict[str, Stamp], tasks: TaskOwner) -> None:
        before, self._desired = self._desired, sockets
        for path in sorted(sockets.keys() | before.keys() | self._registered.keys()):
            if path in self._changes:
                if sockets.get(path) != before.get(path):
                    self._changes[path].set()
            elif not self._current(path, sockets.get(path)):
                self._changes[path] = asyncio.Event()
                tasks.start(self._reconcile(path), path)

    def _current(self, path: str, stamp: Stamp | None) -> bool:
        registered = self._registered.get(path)
        return (registered.stamp if registered else None) == stamp

    async def _reconcile(self, path: str) -> None:
        """Bring the registration of *path* to its desired state, with retries."""
        changed = self._changes[path]
        pauses = Backoff(INITIAL_SECONDS, MAX_SECONDS, jitter=0)
        failed: Stamp | None = None
        try:
            while not self._current(path, stamp := self._desired.get(path)):
                changed.clear()
                if stamp != failed:
                    pauses.reset()
                try:
                    await self._deregister(path)
                    if stamp is not None:
                        await self._register(path, stamp)
                except PluginRegistrationError as error:
                    failed = stamp
                    _log.error("Failed to register plugin", extra={"path": path, "err": str(error)})
                    await wait_for(changed, self._clock, pauses.next())
                except Exception:
                    failed = stamp
                    _log.exception("Failed to register plugin", extra={"path": path})
                    await wait_for(changed, self._clock, pauses.next())
        finally:
            del self._changes[path]

    async def _register(self, path: str, stamp: Stamp) -> None:
        async with open_session(path) as session:
            plugin = await session.plugin()
            handler = self._handlers.get(plugin.type)
            if handler is None:
                kind = plugin.type[:253]
                await _reject(
                    session, f"RegisterPlugin error -- no handler registered for plugin type: {kind} at socket {path}"
                )
            try:
                check_description(plugin)
                await asyncio.to_thread(check_endpoint, plugin)
                await handler.validate(plugin)
            except PluginRegistrationError as error:
                await _reject(session, f"RegisterPlugin error -- plugin validation failed with err: {error}", error)
            try:
                await handler.register(plugin)
            except PluginRegistrationError as error:
                await _reject(session, f"RegisterPlugin error -- plugin registration failed with err: {error}", error)
            try:
                await session.notify(registered=True)
            except PluginRegistrationError:
                await handler.deregister(plugin)
                raise
        self._registered[path] = _Registered(plugin, stamp)
        _log.info(
            "Registered plugin",
            extra={"path": path, "plugin": plugin.name, "type": plugin.type, "endpoint": plugin.endpoint},
        )

    async def _deregister(self, path: str) -> None:
        registered = self._registered.get(path)
        if registered is None:
            return
        plugin = registered.plugin
        _log.info("Deregistering plugin", extra={"path": path, "plugin": plugin.name, "type": plugin.type})
        await self._handlers[plugin.type].deregister(plugin)
        del self._registered[path]

    def _count(self) -> dict[tuple[str, ...], float]:
        return {
            (path, state): 1
            for state, paths in (
                ("desired_state_of_world", self._desired),
                ("actual_state_of_world", self._registered),
            )
            for path in paths
        }


async def _reject(session: Session, message: str, cause: Exception | None = None) -> NoReturn:
    """Notify the plugin that it is not registered.

    :raises PluginRegistrationError: always, with *message*.
    """
    try:
        await session.notify(registered=False, error=message)
    except PluginRegistrationError as error:
        _log.warning("Failed to notify plugin of its rejection", extra={"err": str(error)})
    raise PluginRegistrationError(message) from cause
