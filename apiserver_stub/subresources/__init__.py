"""Handlers of subresources and kinds that are not stored: actions, and streams to nodes, pods and services."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import field

from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.kinds.registry import Resource
    from apiserver_stub.nodes.stream import StreamHandler
    from apiserver_stub.verbs.responses import Reply

Action = Callable[["Request", "Resource"], Awaitable["Reply"]]
"""Handler of requests that do not read and write objects of the kind, mostly of a POST.

:raises ApiError: the request is rejected.
"""
Key = tuple[str, str, str]
"""Group, plural, and subresource; the last is empty for the kind itself."""


class Handlers(Struct, frozen=True):
    """Handlers of the requests that are not reads and writes of stored objects."""

    actions: Mapping[Key, Action] = field(default_factory=dict)
    readers: Mapping[tuple[str, str], Action] = field(default_factory=dict)
    """Handlers of gets and lists of kinds whose objects are determined when they are read, by group and plural."""
    scale: Action | None = None
    """Handler of the subresource ``scale`` of every kind that declares its fields."""
    streams: Mapping[Key, StreamHandler] = field(default_factory=dict)
    """Handlers of the methods that the subresource declares; their responses last as long as the connection."""

    def action(self, resource: Resource, subresource: str) -> Action | None:
        """Return the action of *subresource* (empty: of the kind itself), ``None`` if it is stored."""
        if subresource == "scale" and resource.scale is not None:
            return self.scale
        return self.actions.get((resource.group, resource.plural, subresource))

    def reader(self, resource: Resource) -> Action | None:
        """Return the handler of gets and lists, ``None`` if the objects are stored."""
        return self.readers.get((resource.group, resource.plural))

    def stream(self, resource: Resource, subresource: str) -> StreamHandler | None:
        """Return the handler of a *subresource* whose responses are streams, ``None`` for others."""
        return self.streams.get((resource.group, resource.plural, subresource))
