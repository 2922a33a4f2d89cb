"""Admission requests, which the verbs pass to admission plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import field

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError, forbidden
from nodeagent.base.structs import MutableStruct

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.kinds.registry import Resource

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


class AdmissionRequest(MutableStruct):
    """Attributes of a request for admission plugins: operation, objects and options."""

    operation: Operation
    request: Request
    resource: Resource
    new: Object | None = None
    """The object to store, or the body of an action; ``None`` for deletions."""
    old: Object | None = None
    name: str = ""
    options: Object = field(default_factory=dict)
    """Options of a deletion."""
    dry_run: bool = False
    reinvoking: bool = False
    """``True`` in the second call of the plugins, after a webhook changed the object."""
    reinvoke: bool = False
    """Set by a plugin that changed the object in a way that requires a second call of the other plugins."""
    seen: dict[str, bytes] = field(default_factory=dict)
    """Encoded object that each webhook returned, by the name of the webhook."""

    @property
    def subresource(self) -> str:
        return self.request.info.subresource

    @property
    def namespace(self) -> str:
        return self.request.info.namespace

    @property
    def obj(self) -> Object:
        """The new object; empty for a deletion."""
        return self.new if self.new is not None else {}

    @property
    def target(self) -> str:
        """Name of the object, which a create request states only in its body."""
        return self.name or str((self.obj.get("metadata") or {}).get("name") or "")

    def forbidden(self, message: str) -> ApiError:
        """Return the 403 error with *message*."""
        name = self.name
        if not name:
            metadata = self.obj.get("metadata") or {}
            name = metadata.get("name") or metadata.get("generateName") or "Unknown"
        return forbidden(self.resource.group, self.resource.plural, name, message)
