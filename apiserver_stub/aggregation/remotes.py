"""Remote group versions, and the order of all group versions in discovery."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import field

from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.request import RequestInfo
from apiserver_stub.kinds import api_services
from apiserver_stub.kinds.version_order import version_order
from nodeagent.base.identity import Identity
from nodeagent.base.structs import MutableStruct, Struct

GroupVersion = tuple[str, str]


class Remote(Struct, frozen=True):
    """Remote API service, with a reference to a Service."""

    name: str
    group: str
    version: str
    service: str
    namespace: str
    port: int
    ca_bundle: str
    insecure: bool
    available: bool
    group_priority: int
    version_priority: int

    @property
    def server_name(self) -> str:
        """Expected DNS name in the serving certificate."""
        return f"{self.service}.{self.namespace}.svc"

    @property
    def path(self) -> str:
        return f"/apis/{self.group}/{self.version}"


class Discovered(Struct, frozen=True):
    """Cached discovery of a remote group version."""

    resources: Sequence[Object] = ()
    """Resources in the format of aggregated discovery."""
    fresh: bool = False
    openapi_url: str = ""
    """URL of the OpenAPI document; empty if there is none."""


NOTHING = Discovered()


class Remotes(MutableStruct):
    """Current remote group versions; written by the controller, read by requests."""

    identity: Identity
    table: dict[GroupVersion, Remote] = field(default_factory=dict)
    discovered: dict[GroupVersion, Discovered] = field(default_factory=dict)
    losses: Counter[tuple[str, str]] = field(default_factory=Counter)
    """API service and reason → number of transitions to unavailable."""

    def find(self, info: RequestInfo) -> Remote | None:
        """Return the API service of a request for a resource, or for discovery or OpenAPI of one group version."""
        if info.is_resource:
            return self.table.get((info.group, info.version))
        parts = info.path.strip("/").split("/")
        if parts[:2] == ["openapi", "v3"]:
            parts = parts[2:]
        return self.table.get((parts[1], parts[2])) if len(parts) == 3 and parts[0] == "apis" else None

    def merged(self, local: Sequence[GroupVersion]) -> Sequence[GroupVersion]:
        """Return *local* and remote group versions in order of client preference."""
        return merge(local, self.table, self.identity) if self.table else local


def remote_of(obj: Object, identity: Identity) -> Remote | None:
    """Return the remote API service *obj*, ``None`` if this server serves it."""
    spec = obj.get("spec") or {}
    service = spec.get("service")
    if service is None or (spec.get("group") or "") in api_services.always_local_groups(identity):
        return None
    conditions = dig(obj, ("status", "conditions")) or ()
    return Remote(
        obj["metadata"]["name"],
        spec["group"],
        spec.get("version") or "",
        service.get("name") or "",
        service.get("namespace") or "",
        service.get("port") or api_services.DEFAULT_PORT,
        spec.get("caBundle") or "",
        bool(spec.get("insecureSkipTLSVerify")),
        any(item.get("type") == "Available" and item.get("status") == "True" for item in conditions),
        spec.get("groupPriorityMinimum") or 0,
        spec.get("versionPriority") or 0,
    )


def merge(
    local: Iterable[GroupVersion], table: Mapping[GroupVersion, Remote], identity: Identity
) -> list[GroupVersion]:
    """Return all group versions: groups by priority, then in the order of *local*, then by name."""
    ranks: dict[GroupVersion, tuple[int, int]] = {}
    positions: dict[str, tuple[int, str]] = {}
    for group, version in local:
        group_rank, _, version_rank = api_services.order(group, version, identity)
        ranks[group, version] = -group_rank, -version_rank
        positions.setdefault(group, (len(positions), ""))
    after = len(positions)
    for (group, version), remote in table.items():
        ranks[group, version] = remote.group_priority, remote.version_priority
        positions.setdefault(group, (after, group))
    best: dict[str, int] = {}
    for (group, _), (priority, _) in ranks.items():
        best[group] = max(best.get(group, 0), priority)
    return sorted(
        ranks,
        key=lambda item: (-best[item[0]], positions[item[0]], -ranks[item][1], version_order(item[1])),
    )
