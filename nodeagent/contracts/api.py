"""API server client of plugins; ``context.api`` is ``None`` in standalone mode."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")
JsonPatch = list[Any]
"""The operations of a JSON patch."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A REST resource; ``group`` is the short name (``events``), empty for the core group.

    The client appends the API domain, except to groups that contain a dot and to ``bare_group`` ones.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    bare_group: bool = False
    """True if the group has no domain, such as ``apps`` and ``policy``."""


PODS = Resource("", "v1", "pods", "Pod")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
SERVICES = Resource("", "v1", "services", "Service")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS = Resource("", "v1", "secrets", "Secret")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
CORE_EVENTS = Resource("", "v1", "events", "Event")
EVENTS = Resource("events", "v1", "events", "Event")
LEASES = Resource("coordination", "v1", "leases", "Lease")
RUNTIME_CLASSES = Resource("node", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)


class PatchType(StrEnum):
    """Media types of patches."""

    STRATEGIC = "application/strategic-merge-patch+json"
    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"


class WatchType(StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    type: WatchType
    object: T
    resource_version: str


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    items: list[T]
    resource_version: str
    continue_token: str = ""


class Api(Protocol):
    """A client of the API server.

    Objects are passed as dicts in JSON form and returned as *into* (``dict`` or a struct of ``nodeagent.model``). Every
    call has a deadline; failures raise :class:`~nodeagent.errors.ApiError` or a subclass. Calls wait for the client's
    rate limit (spec: config.platformAPIQPS, config.platformAPIBurst).
    """

    async def get(
        self, resource: Resource, name: str, namespace: str = "", *, into: type[T], cached: bool = False
    ) -> T:
        """Read one object; *cached* allows the server to respond from its cache."""
        ...

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        into: type[T],
        field_selector: str = "",
        label_selector: str = "",
        cached: bool = False,
    ) -> Listing[T]:
        """Read all matching objects, page by page."""
        ...

    def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        into: type[T],
        resource_version: str,
        field_selector: str = "",
        label_selector: str = "",
    ) -> AsyncIterator[WatchEvent[T]]:
        """Stream changes after *resource_version* until the server ends the watch.

        :raises ApiGone: the resource version is too old; list again.
        """
        ...

    async def create(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        namespace: str = "",
        *,
        subresource: str = "",
        name: str = "",
        decode: bool = True,
    ) -> dict[str, Any]:
        """Create an object and return it; without *decode* the body is not decoded and an empty dict is returned."""
        ...

    async def update(
        self, resource: Resource, name: str, obj: Mapping[str, Any], namespace: str = "", *, subresource: str = ""
    ) -> dict[str, Any]: ...

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any] | JsonPatch,
        namespace: str = "",
        *,
        subresource: str = "",
        patch_type: PatchType = PatchType.STRATEGIC,
        decode: bool = True,
    ) -> dict[str, Any]:
        """Patch an object and return it; without *decode* the body is not decoded and an empty dict is returned."""
        ...

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", *, grace_seconds: int | None = None, uid: str = ""
    ) -> None:
        """Delete one object; *uid* is a precondition. Raises ``ApiNotFound`` if the object does not exist."""
        ...


@dataclass(frozen=True, slots=True)
class ApiProbe:
    """Response of the API server to a probe."""

    status: int
    """The HTTP status, for example 200, 401 or 503."""
    date: datetime | None = None
    """The server's clock, with a resolution of one second; ``None`` without a valid ``Date`` header."""


class ApiConnection(Api, Protocol):
    """A separate client of an API server, which its creator closes."""

    async def probe(self, deadline_seconds: float) -> ApiProbe:
        """Request ``/version`` once, without retry or rate limit.

        :param deadline_seconds: time limit of the request.
        :raises ApiUnavailable: the server cannot be reached, or did not respond in time.
        """
        ...

    async def close(self) -> None:
        """Close the connections; requests in flight fail."""
        ...


class ConnectApi(Protocol):
    """Connects to an API server; ``context.connect_api``."""

    def __call__(self, kubeconfig: Path, /) -> ApiConnection:
        """Return a client with the server and credentials of *kubeconfig*; sends no request. Reads the disk.

        :raises ConfigError: the kubeconfig, or a file named by it, is invalid.
        """
        ...
