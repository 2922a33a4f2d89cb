"""API server client of plugins; ``context.api`` is ``None`` in standalone mode."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from nodeagent.base.structs import Struct

T = TypeVar("T")
JsonPatch = list[Any]
"""The operations of a JSON patch."""


class Resource(Struct, frozen=True):
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
PERSISTENT_VOLUME_CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
PERSISTENT_VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
CSI_DRIVERS = Resource("storage", "v1", "csidrivers", "CSIDriver", namespaced=False)
CSI_NODES = Resource("storage", "v1", "csinodes", "CSINode", namespaced=False)
VOLUME_ATTACHMENTS = Resource("storage", "v1", "volumeattachments", "VolumeAttachment", namespaced=False)
RUNTIME_CLASSES = Resource("node", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)


class PatchType(StrEnum):
    """Media types of patches."""

    STRATEGIC = "application/strategic-merge-patch+json"
    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"


class WatchType(StrEnum):
    """Type of a watch event."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


class WatchEvent(Struct, Generic[T], frozen=True):
    """A change of a watched object; a bookmark has only a resource version."""

    type: WatchType
    object: T
    resource_version: str


class Listing(Struct, Generic[T], frozen=True):
    """The objects of a list; ``resource_version`` is the start of a watch."""

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
        """Read one object; *cached* allows the server to respond from its cache.

        :param resource: the REST resource.
        :param name: name of the object.
        :param namespace: namespace of the object; empty for a cluster-scoped resource.
        :param into: the type to decode to: ``dict`` or a struct of ``nodeagent.model``.
        :param cached: allow the server to respond from its cache, which may be older.
        :raises ApiNotFound: the object does not exist.
        :raises ApiUnavailable: the API server cannot be reached, or did not respond in time.
        :raises ApiError: the API server returned an error status.
        """
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
        """Read all matching objects, page by page.

        :param resource: the REST resource.
        :param namespace: restricts the list to one namespace; empty for all namespaces.
        :param into: the type to decode each object to.
        :param field_selector: selector such as ``spec.nodeName=node-1``; empty selects all objects.
        :param label_selector: selector such as ``app=web``; empty selects all objects.
        :param cached: allow the server to respond from its cache, which may be older.
        :raises ApiUnavailable: the API server cannot be reached, or did not respond in time.
        :raises ApiError: the API server returned an error status.
        """
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
        patience_seconds: float = 0.0,
    ) -> AsyncIterator[WatchEvent[T]]:
        """Stream changes after *resource_version* until the server ends the watch.

        :param resource: the REST resource.
        :param namespace: restricts the watch to one namespace; empty for all namespaces.
        :param into: the type to decode each object to.
        :param resource_version: the version of a list or of the last event.
        :param field_selector: selector of objects, as for :meth:`list`.
        :param label_selector: selector of objects, as for :meth:`list`.
        :param patience_seconds: time for which the rate limit prefers other requests to the start of the watch.
        :raises ApiGone: the resource version is too old; list again.
        :raises ApiUnavailable: the API server cannot be reached, or did not respond in time.
        :raises ApiError: the API server returned an error status.
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
        """Create an object and return it.

        :param resource: the REST resource.
        :param obj: the object in JSON form; ``apiVersion`` and ``kind`` are added.
        :param namespace: namespace of the object; empty for a cluster-scoped resource.
        :param subresource: create a subresource of the object *name*, such as ``token``.
        :param name: name of the parent object, only with *subresource*.
        :param decode: decode the response; otherwise an empty dict is returned.
        :raises ApiConflict: the object exists.
        :raises ApiUnavailable: the API server cannot be reached, or did not respond in time.
        :raises ApiError: the API server returned an error status.
        """
        ...

    async def update(
        self, resource: Resource, name: str, obj: Mapping[str, Any], namespace: str = "", *, subresource: str = ""
    ) -> dict[str, Any]:
        """Replace an object and return it.

        :param resource: the REST resource.
        :param name: name of the object.
        :param obj: the complete object in JSON form; its ``resourceVersion`` is a precondition.
        :param namespace: namespace of the object; empty for a cluster-scoped resource.
        :param subresource: replace a subresource, such as ``status``.
        :raises ApiConflict: the object was modified concurrently.
        :raises ApiNotFound: the object does not exist.
        :raises ApiUnavailable: the API server cannot be reached, or did not respond in time.
        :raises ApiError: the API server returned an error status.
        """
        ...

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
        """Patch an object and return it.

        :param resource: the REST resource.
        :param name: name of the object.
        :param patch: the patch in the form of *patch_type*.
        :param namespace: namespace of the object; empty for a cluster-scoped resource.
        :param subresource: patch a subresource, such as ``status``.
        :param patch_type: the media type of *patch*.
        :param decode: decode the response; otherwise an empty dict is returned.
        :raises ApiConflict: the object was modified concurrently.
        :raises ApiNotFound: the object does not exist.
        :raises ApiUnavailable: the API server cannot be reached, or did not respond in time.
        :raises ApiError: the API server returned an error status.
        """
        ...

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", *, grace_seconds: int | None = None, uid: str = ""
    ) -> None:
        """Delete one object.

        :param resource: the REST resource.
        :param name: name of the object.
        :param namespace: namespace of the object; empty for a cluster-scoped resource.
        :param grace_seconds: grace period in seconds; ``None`` uses the server's default.
        :param uid: UID that the object must have; empty for any.
        :raises ApiConflict: the object has another UID.
        :raises ApiNotFound: the object does not exist.
        :raises ApiUnavailable: the API server cannot be reached, or did not respond in time.
        :raises ApiError: the API server returned an error status.
        """
        ...

    async def delete_collection(
        self, resource: Resource, namespace: str = "", *, field_selector: str = "", label_selector: str = ""
    ) -> None:
        """Delete all matching objects.

        :param resource: the REST resource.
        :param namespace: restricts the deletion to one namespace; empty for a cluster-scoped resource.
        :param field_selector: selector of objects, as for :meth:`list`.
        :param label_selector: selector of objects, as for :meth:`list`.
        :raises ApiUnavailable: the API server cannot be reached, or did not respond in time.
        :raises ApiError: the API server returned an error status.
        """
        ...


class ApiProbe(Struct, frozen=True):
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
        """Close the connections; requests in flight fail. Never raises."""
        ...


class ConnectApi(Protocol):
    """Connects to an API server; ``context.connect_api``."""

    def __call__(self, kubeconfig: Path, /) -> ApiConnection:
        """Return a client with the server and credentials of *kubeconfig*; sends no request. Reads the disk.

        :param kubeconfig: path of a kubeconfig file.
        :raises ConfigError: the kubeconfig, or a file named by it, is invalid.
        """
        ...
