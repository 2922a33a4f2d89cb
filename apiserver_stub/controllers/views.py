"""Views of objects: the fields that controllers compare, decoded without the rest of the object. No I/O.

They are numerous and contain no cycles, so Python's garbage collector does not track them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from apiserver_stub.apimachinery.objects import dig, parse_time

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
FINISHED = ("Succeeded", "Failed")


class Owner(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Reference to an owner."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class Metadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Metadata of an object."""

    name: str
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[Owner, ...] | None = None
    created_at: str | None = msgspec.field(name="creationTimestamp", default=None)
    deleted_at: str | None = msgspec.field(name="deletionTimestamp", default=None)
    finalizers: tuple[str, ...] | None = None


class View(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An object with its metadata; two views are equal if no field that controllers compare has changed."""

    metadata: Metadata

    @property
    def key(self) -> str:
        """Key in the collection."""
        metadata = self.metadata
        return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name

    @property
    def controller(self) -> Owner | None:
        """The owner that manages the object."""
        return next((owner for owner in self.metadata.owner_references or () if owner.controller), None)

    @property
    def deleting(self) -> bool:
        return self.metadata.deleted_at is not None


class SelectorSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Selector in the spec of an object that manages others."""

    selector: dict[str, Any] | None = None


class OwnerView(View, frozen=True, gc=False, rename="camel"):
    """An object that manages others which its selector selects; other changes of its spec change the generation."""

    spec: SelectorSpec = SelectorSpec()
    status: dict[str, Any] | None = None


class Condition(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Condition in a status."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    changed_at: str | None = msgspec.field(name="lastTransitionTime", default=None)
    heartbeat_at: str | None = msgspec.field(name="lastHeartbeatTime", default=None)


class ContainerStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Status of a container of a pod."""

    restart_count: int = 0


class PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Spec of a pod."""

    node_name: str = ""
    affinity: dict[str, Any] | None = None
    tolerations: tuple[dict[str, Any], ...] | None = None
    hostname: str = ""
    subdomain: str = ""
    host_network: bool = False

    @property
    def affinity_node(self) -> str:
        """The only node that the required node affinity allows by name, empty if there is none."""
        terms = dig(self.affinity, ("nodeAffinity", _REQUIRED, "nodeSelectorTerms")) or ()
        fields = [item for term in terms for item in term.get("matchFields") or () if item.get("operator") == "In"]
        values = [value for item in fields for value in item.get("values") or ()]
        return str(values[0]) if len(values) == 1 else ""


class PodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Status of a pod."""

    phase: str = ""
    reason: str = ""
    conditions: tuple[Condition, ...] | None = None
    started_at: str | None = msgspec.field(name="startTime", default=None)
    pod_ip: str = msgspec.field(name="podIP", default="")
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None


class PodView(View, frozen=True, gc=False, rename="camel"):
    """A pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def active(self) -> bool:
        """``True`` unless the pod has terminated or is being deleted."""
        return self.status.phase not in FINISHED and not self.deleting

    @property
    def ready_since(self) -> datetime | None:
        """Time of the transition to Ready, ``None`` if the pod is not ready."""
        for condition in self.status.conditions or ():
            if condition.type == "Ready" and condition.status == "True":
                return parse_time(condition.changed_at) or datetime.min.replace(tzinfo=UTC)
        return None

    @property
    def ready(self) -> bool:
        return any(item.type == "Ready" and item.status == "True" for item in self.status.conditions or ())

    def available(self, min_ready_seconds: int, now: datetime) -> bool:
        """Return whether the pod has been ready for *min_ready_seconds*."""
        if not self.ready:
            return False
        if not min_ready_seconds:
            return True
        since = self.ready_since
        return since is not None and since + timedelta(seconds=min_ready_seconds) <= now

    @property
    def restarts(self) -> int:
        """Highest number of restarts of a container."""
        statuses = (*(self.status.init_container_statuses or ()), *(self.status.container_statuses or ()))
        return max((item.restart_count for item in statuses), default=0)


class NodeSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Spec of a node."""

    taints: tuple[dict[str, Any], ...] | None = None
    unschedulable: bool = False


class NodeStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Status of a node."""

    conditions: tuple[Condition, ...] | None = None
    allocatable: dict[str, str] | None = None


class NodeView(View, frozen=True, gc=False, rename="camel"):
    """A node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    def condition(self, kind: str) -> str:
        """Return the status of the condition *kind*, empty if the node does not have it."""
        return next((item.status for item in self.status.conditions or () if item.type == kind), "")


class ServiceView(View, frozen=True, gc=False, rename="camel"):
    """A Service, whose generation is not counted."""

    spec: dict[str, Any] = msgspec.field(default_factory=dict)


class LeaseSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Spec of a lease."""

    renewed_at: str | None = msgspec.field(name="renewTime", default=None)


class LeaseView(View, frozen=True, gc=False, rename="camel"):
    """A lease."""

    spec: LeaseSpec = LeaseSpec()
