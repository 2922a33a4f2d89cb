"""Controller manager: the bundled controllers, their selection with ``--controllers``, and their shared index."""

from __future__ import annotations

import asyncio
import functools
import importlib
import inspect
import pkgutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.status import qualified
from apiserver_stub.controllers import workloads
from apiserver_stub.controllers.leadership import Leadership
from apiserver_stub.controllers.object_index import ObjectIndex
from apiserver_stub.controllers.plugin import Controller, ControllerContext
from apiserver_stub.controllers.views import View
from nodeagent.base.release import OLDEST, Release

if TYPE_CHECKING:
    from apiserver_stub.controllers.autoscaling.metrics import MetricsClient
    from apiserver_stub.kinds.registry import Registry
    from apiserver_stub.verbs.context import VerbContext
    from nodeagent.base.aio import Clock
    from nodeagent.base.gates import FeatureGates
    from nodeagent.base.identity import Identity


@functools.cache
def bundled_controllers() -> tuple[type[Controller], ...]:
    """Return the controllers that the modules of :mod:`workloads` define, sorted by name."""
    return tuple(sorted(_classes(), key=lambda item: item.name))


def _classes() -> Iterator[type[Controller]]:
    for item in pkgutil.iter_modules(workloads.__path__, f"{workloads.__name__}."):
        module = importlib.import_module(item.name)
        for value in vars(module).values():
            if (
                inspect.isclass(value)
                and issubclass(value, Controller)
                and value.__module__ == item.name
                and value.name
            ):
                yield value


def served(controllers: Iterable[type[Controller]], registry: Registry, identity: Identity) -> list[type[Controller]]:
    """Return the controllers whose resources are served."""
    resources = {qualified(item.plural, item.group) for item in registry}
    return [item for item in controllers if resources.issuperset(item.resources_of(identity))]


class ControllerManager:
    """The *controllers* of a server, with an index of the objects that they read.

    :param leadership: election among the servers of the store; by default, this server is the only one.
    """

    def __init__(
        self,
        controllers: Sequence[type[Controller]],
        verbs: VerbContext,
        registry: Registry,
        identity: Identity,
        gates: FeatureGates,
        clock: Clock,
        event_ttl_seconds: int | None = None,
        leadership: Leadership | None = None,
        release: Release = OLDEST,
        metrics: MetricsClient | None = None,
    ) -> None:
        self._index = ObjectIndex(verbs.store, views_of(controllers, identity))
        leadership = leadership or Leadership(verbs.store, identity, clock)
        context = ControllerContext(
            verbs, registry, identity, gates, self._index, leadership, clock, event_ttl_seconds, release, metrics
        )
        self._controllers = [item(context) for item in controllers]

    async def run(self) -> None:
        """Run the controllers until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._index.run())
            for controller in self._controllers:
                group.create_task(controller.run(), name=controller.name)


def views_of(controllers: Iterable[type[Controller]], identity: Identity) -> Mapping[str, type[View]]:
    """Return the collections that *controllers* read, and the types of their views.

    :raises TypeError: two controllers read a collection with different types.
    """
    found: dict[str, type[View]] = {}
    for controller in controllers:
        for collection, kind in controller.views_of(identity).items():
            if found.setdefault(collection, kind) is not kind:
                raise TypeError(f"{controller.name} reads {collection} as {kind.__name__}")
    return found
