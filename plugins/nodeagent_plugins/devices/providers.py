"""Providers in use: their loops, published lists and connection states."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence

from msgspec import field

from nodeagent.base.aio import Backoff
from nodeagent.base.structs import MutableStruct
from nodeagent.contracts.context import VolumesContext
from nodeagent.contracts.devices import DeviceProvider, ProvidedDevice
from nodeagent.contracts.events import EventType
from nodeagent.errors import DeviceError
from nodeagent.model.extended_resources import is_extended_resource
from nodeagent_plugins.devices.inventory import Resource, checked

_MAX_LISTS, _LISTS_SECONDS = 100, 10.0
"""Lists that a provider may publish in a period."""
_STABLE_SECONDS = 30.0
"""Time after which a connection counts as successful, so that the back-off starts again."""
_log = logging.getLogger(__name__)

Changed = Callable[[Resource, set[str]], None]
"""Called with a resource and the devices whose health has changed."""


class Watch(MutableStruct, eq=False):
    """One provider in use; implements :class:`~nodeagent.contracts.devices.DeviceRegistration`."""

    providers: Providers
    provider: DeviceProvider
    task: asyncio.Task[None] | None = None
    closed: bool = False
    lists: deque[float] = field(default_factory=lambda: deque(maxlen=_MAX_LISTS))
    """Times of the last lists."""

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            if self.task is not None:
                self.task.cancel()
            self.providers.closed(self)


class Providers:
    """Watches one provider per resource; a new one replaces the earlier one, whose later lists are ignored.

    :param resources: the resources by name, which are updated.
    """

    def __init__(self, context: VolumesContext, resources: dict[str, Resource], changed: Changed) -> None:
        self._context, self._resources, self._changed = context, resources, changed
        self._clock = context.clock
        self._watches: dict[str, Watch] = {}
        self._started = False

    def start(self) -> None:
        """Watch the providers that were added."""
        self._started = True
        for watch in self._watches.values():
            self._run(watch)

    def add(self, provider: DeviceProvider) -> Watch:
        """Use a provider.

        :raises DeviceError: its resource is not an extended resource.
        """
        name = provider.resource
        if not is_extended_resource(name):
            raise DeviceError(f'the ResourceName "{name[:253]}" is invalid')
        previous = self._watches.get(name)
        watch = self._watches[name] = Watch(self, provider)
        if previous is not None:
            previous.close()
        self._resources.setdefault(name, Resource(name, self._clock.now())).provider = provider
        if self._started:
            self._run(watch)
        return watch

    def closed(self, watch: Watch) -> None:
        """Record that a provider is no longer used."""
        name = watch.provider.resource
        if self._watches.get(name) is watch:
            del self._watches[name]
            self._resources[name].provider = None
            self._disconnected(self._resources[name], "the provider was removed")

    def _run(self, watch: Watch) -> None:
        watch.task = self._context.tasks.start(self._watch(watch), f"devices {watch.provider.resource}")

    async def _watch(self, watch: Watch) -> None:
        """Watch the devices of a provider until it is closed."""
        provider, backoff = watch.provider, Backoff(0.5, 30.0)
        while True:
            started = self._clock.now()
            try:
                await provider.watch(lambda devices: self._publish(watch, devices))
                error = "the provider stopped to report its devices"
            except DeviceError as failure:
                error = str(failure)
            except Exception as failure:
                error = repr(failure)
            if watch.closed:
                return
            self._disconnected(self._resources[provider.resource], error)
            if self._clock.now() - started >= _STABLE_SECONDS:
                backoff.reset()
            await self._clock.sleep(backoff.next())

    def _publish(self, watch: Watch, devices: Sequence[ProvidedDevice]) -> None:
        """Store the devices of a provider.

        :raises DeviceError: the list is invalid, or the provider publishes too often.
        """
        if watch.closed:
            return
        now, name = self._clock.now(), watch.provider.resource
        if len(watch.lists) == _MAX_LISTS and now - watch.lists[0] < _LISTS_SECONDS:
            watch.lists.clear()
            raise DeviceError(
                f"device plugin of {name} sent more than {_MAX_LISTS} lists of devices within {_LISTS_SECONDS:g} s"
            )
        watch.lists.append(now)
        found, resource = checked(name, devices), self._resources[name]
        connected = resource.connected
        changed = resource.update(found, now)
        if not connected:
            fields = {"resourceName": name, "endpoint": watch.provider.endpoint, "devices": len(found)}
            _log.info("Device plugin connected", extra=fields)
            note = f"Device plugin of {name} lists {len(found)} devices"
            self._note(EventType.NORMAL, "DevicePluginRegistered", note)
        if changed or not connected:
            self._changed(resource, changed)

    def _disconnected(self, resource: Resource, error: str) -> None:
        if resource.connected or resource.error != error:
            fields = {"resourceName": resource.name, "err": error}
            _log.error("ListAndWatch ended unexpectedly for device plugin", extra=fields)
        connected = resource.connected
        resource.disconnect(self._clock.now(), error)
        if connected:
            note = f"Device plugin of {resource.name} is not connected: {error}"
            self._note(EventType.WARNING, "DevicePluginGone", note)
            self._changed(resource, set(resource.devices))

    def _note(self, kind: EventType, reason: str, note: str) -> None:
        self._context.recorder.record(self._context.node_reference(), kind, reason, note)
