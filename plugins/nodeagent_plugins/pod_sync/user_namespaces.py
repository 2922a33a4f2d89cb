"""User namespaces of pods: ranges of user and group IDs, stored in ``<root>/pods/<uid>/userns``."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import msgspec

from nodeagent.base.atomic_file import write_private
from nodeagent.base.gates import FeatureGates
from nodeagent.base.structs import Struct
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.contracts.runtime import IdMapping, RuntimeStatus, UserNamespace
from nodeagent.errors import ConfigError, NodeAgentError, Problem
from nodeagent.model.pod import Pod
from nodeagent.model.wire import WireStruct
from nodeagent_plugins.pod_sync.subordinate_ids import IdRange

FILE = "userns"
GATE = "UserNamespacesSupport"
DEFAULT_IDS_PER_POD = 65536


class _Mapping(WireStruct, frozen=True, omit_defaults=False):
    host_id: int = msgspec.field(name="hostId")
    container_id: int = msgspec.field(name="containerId")
    length: int


class _Mappings(WireStruct, frozen=True):
    uid_mappings: list[_Mapping]
    gid_mappings: list[_Mapping]


class IdPool(Struct, frozen=True):
    """IDs of the host that pods can use, in ranges of *length* from *first* to before *end*."""

    first: int
    end: int
    length: int

    def lowest_free(self, used: Iterable[int]) -> int:
        """Return the first ID of the lowest range that is not *used*.

        :raises NodeAgentError: all ranges are used.
        """
        taken = set(used)
        for start in range(self.first, self.end - self.length + 1, self.length):
            if start not in taken:
                return start
        raise NodeAgentError("all ranges of user IDs for pods with a user namespace are in use")

    def has(self, start: int) -> bool:
        """Return whether *start* is the first ID of a range."""
        return self.first <= start <= self.end - self.length and start % self.length == 0


class PodUserNamespaces:
    """Assigns a range of IDs to each pod with a user namespace; ranges are never shared.

    The ranges of earlier runs of the agent are read on creation. Blocking.

    :param pods: the directory with one directory per pod.
    :raises ConfigError: a stored range is invalid.
    """

    def __init__(self, pods: Path, pool: IdPool) -> None:
        self._pods, self._pool = pods, pool
        self._starts: dict[str, int] = {}
        self._lock = asyncio.Lock()
        for file in sorted(pods.glob(f"*/{FILE}")):
            try:
                self._starts[file.parent.name] = self._parse(file.read_bytes())
            except (OSError, ValueError, msgspec.DecodeError) as error:
                raise ConfigError(
                    [Problem(str(file), "", None, f"invalid user namespace of a pod: {error}")]
                ) from error

    async def of(self, pod: Pod) -> UserNamespace | None:
        """Return the user namespace of *pod*, which is assigned in the first call; ``None`` if it uses the node's.

        :raises NodeAgentError: no range is free, or it cannot be stored.
        """
        if pod.spec.host_users is not False:
            return None
        async with self._lock:
            start = self._starts.get(pod.uid)
            if start is None:
                start = self._pool.lowest_free(self._starts.values())
                try:
                    await asyncio.to_thread(self._store, pod.uid, start)
                except OSError as error:
                    raise NodeAgentError(f"failed to store the user namespace of {pod.full_name}: {error}") from error
                self._starts[pod.uid] = start
        mapping = IdMapping(start, 0, self._pool.length)
        return UserNamespace((mapping,), (mapping,))

    async def release(self, uid: str) -> None:
        """Release the ID range of a pod whose containers have been removed."""
        if uid in self._starts:
            await asyncio.to_thread((self._pods / uid / FILE).unlink, missing_ok=True)
            self._starts.pop(uid, None)

    def _store(self, uid: str, start: int) -> None:
        mappings = [_Mapping(host_id=start, container_id=0, length=self._pool.length)]
        file = self._pods / uid / FILE
        file.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        write_private(file, msgspec.json.encode(_Mappings(uid_mappings=mappings, gid_mappings=mappings)))

    def _parse(self, content: bytes) -> int:
        stored = msgspec.json.decode(content, type=_Mappings)
        if len(stored.uid_mappings) != 1 or stored.uid_mappings != stored.gid_mappings:
            raise ValueError("there must be one mapping, equal for users and groups")
        (mapping,) = stored.uid_mappings
        if mapping.container_id != 0 or mapping.length != self._pool.length or not self._pool.has(mapping.host_id):
            raise ValueError(f"the mapping is not a range of {self._pool.length} IDs of this node")
        if mapping.host_id in self._starts.values():
            raise ValueError("another pod has the same range")
        return mapping.host_id


def id_pool(config: NodeAgentConfiguration, subordinate: IdRange | None) -> IdPool:
    """Return the pool of IDs for pods.

    :param subordinate: range assigned to the agent by the host; without one, all IDs after the first range are used.
    :raises ConfigError: the range cannot be divided into ranges for all pods.
    """
    length = config.user_namespaces.ids_per_pod or DEFAULT_IDS_PER_POD
    if subordinate is None:
        return IdPool(length, 1 << 32, length)
    problem = ""
    if subordinate.first < length or subordinate.first % length:
        problem = f"first ID {subordinate.first} must be a multiple of {length}, and not 0"
    elif subordinate.count % length:
        problem = f"number of IDs {subordinate.count} must be a multiple of {length}"
    elif subordinate.count // length < config.max_pods:
        problem = f"{subordinate.count} IDs are not enough for {config.max_pods} pods with {length} each"
    if problem:
        raise ConfigError([Problem("getsubids", "", None, f"invalid subordinate IDs: {problem}")])
    return IdPool(subordinate.first, subordinate.first + subordinate.count, length)


def check_user_namespaces(pod: Pod, runtime: RuntimeStatus, handler: str, gates: FeatureGates) -> None:
    """Check that the node and its runtime support the user namespace of *pod*, if it has one.

    spec: gate.UserNamespacesSupport

    :raises NodeAgentError: the feature gate is disabled, or the runtime or the handler does not support it.
    """
    if pod.spec.host_users is not False:
        return
    if not gates.enabled(GATE):
        raise NodeAgentError(f'the feature gate "{GATE}" is disabled: can\'t set spec.HostUsers')
    if runtime.handler(handler).user_namespaces:
        return
    if handler:
        raise NodeAgentError(f'RuntimeClass handler "{handler}" does not support user namespaces')
    raise NodeAgentError("can't set `spec.hostUsers: false`, runtime does not support user namespaces")
