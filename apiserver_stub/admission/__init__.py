"""Rules about requests rather than kinds: plugins change or refuse new objects, updates and deletions, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from apiserver_stub.objects import Object

if TYPE_CHECKING:
    from apiserver_stub.request import Request
    from apiserver_stub.resources.registry import Resource


class AdmissionPlugin:
    """One plugin; each method changes *new* or refuses the request by an error. The default does neither."""

    def create(self, request: Request, resource: Resource, new: Object) -> None:
        """Judge a new object, after defaults and before its validation."""

    def update(self, request: Request, resource: Resource, new: Object, old: Object) -> None:
        """Judge a change."""

    def delete(self, request: Request, resource: Resource, name: str) -> None:
        """Judge a deletion."""


class Admission:
    """Asks every plugin in order."""

    def __init__(self, plugins: Sequence[AdmissionPlugin]) -> None:
        self._plugins = plugins

    def admit_create(self, request: Request, resource: Resource, new: Object) -> None:
        for plugin in self._plugins:
            plugin.create(request, resource, new)

    def admit_update(self, request: Request, resource: Resource, new: Object, old: Object) -> None:
        for plugin in self._plugins:
            plugin.update(request, resource, new, old)

    def admit_delete(self, request: Request, resource: Resource, name: str) -> None:
        for plugin in self._plugins:
            plugin.delete(request, resource, name)
