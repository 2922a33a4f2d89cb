"""Exclusive CPUs of guaranteed containers, and the shared pool. No I/O.

spec: config.cpuManagerPolicy, config.cpuManagerPolicyOptions, config.reservedSystemCPUs
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nodeagent.base.cpu_list import parse_cpu_list
from nodeagent.base.structs import Struct
from nodeagent.contracts.topology import Hint, Hints
from nodeagent.model.pod import Container, Pod
from nodeagent.model.qos import QosClass, qos_class
from nodeagent.model.resources import CPU, container_limits, container_requests, has_pod_level_resources
from nodeagent_plugins.resource_managers.alignment import masks
from nodeagent_plugins.resource_managers.cpu_assignment import check_room, take_distributed, take_packed
from nodeagent_plugins.resource_managers.errors import AdmissionRejected, StaleState
from nodeagent_plugins.resource_managers.topology import Topology, format_cpu_list

_MILLI = 1000
_SMT_REASON = "SMTAlignmentError"


class CpuOptions(Struct, frozen=True):
    """Options of the static policy (spec: config.cpuManagerPolicyOptions).

    :ivar full_cores: assign only full physical cores.
    :ivar distribute: distribute CPUs evenly over NUMA nodes if one is not enough.
    :ivar by_socket: align to sockets instead of NUMA nodes.
    :ivar across_cores: prefer CPUs of different physical cores.
    :ivar strict: containers without exclusive CPUs do not use reserved CPUs either.
    :ivar by_cache: prefer CPUs that share a last-level cache.
    """

    full_cores: bool = False
    distribute: bool = False
    by_socket: bool = False
    across_cores: bool = False
    strict: bool = False
    by_cache: bool = False


_NO_OPTIONS = CpuOptions()


class CpuAssignments:
    """CPU assignments of all containers.

    :param reserved: CPUs that are never assigned exclusively.
    """

    def __init__(self, topology: Topology, reserved: frozenset[int], options: CpuOptions = _NO_OPTIONS) -> None:
        self._topology, self._options = topology, options
        self.reserved = reserved
        self._reserved_cores = topology.within("core", topology.ids("core", reserved))
        self._pool = topology.all - reserved if options.strict else topology.all
        self.shared = self._pool
        """CPUs that containers without exclusive CPUs use."""
        self.entries: dict[str, dict[str, frozenset[int]]] = {}
        """Exclusive CPUs by pod UID and container name."""
        self._reusable: tuple[str, frozenset[int]] = ("", frozenset())
        """UID of a pod and the CPUs of its init containers, which the pod's other containers reuse."""

    @property
    def full_cores(self) -> bool:
        """True if only full physical cores are assigned."""
        return self._options.full_cores

    @property
    def free(self) -> frozenset[int]:
        """CPUs that can be assigned exclusively."""
        return self.shared - self.reserved

    @property
    def assignable(self) -> frozenset[int]:
        """CPUs that can be assigned exclusively, including those that are."""
        return self._topology.all - self.reserved

    def exclusive(self) -> frozenset[int]:
        """Return the CPUs that are assigned exclusively."""
        return frozenset().union(*(cpus for held in self.entries.values() for cpus in held.values()))

    def per_node(self) -> dict[int, int]:
        """Return the number of exclusively assigned CPUs of each NUMA node."""
        held = self.exclusive()
        return {node: len(held & self._topology.within("node", [node])) for node in self._topology.ids("node")}

    def within_cache(self, cpus: frozenset[int]) -> bool:
        """Return whether *cpus* share a last-level cache."""
        return len(self._topology.ids("cache", cpus)) == 1

    def of(self, uid: str, container: str) -> frozenset[int] | None:
        """Return the exclusive CPUs of a container, or ``None``."""
        return self.entries.get(uid, {}).get(container)

    def has_exclusive(self, uid: str, container: str) -> bool:
        """Return whether a container has exclusive CPUs."""
        return bool(self.of(uid, container))

    # --- hints ----------------------------------------------------------------------------------------------

    def container_hints(self, pod: Pod, container: Container) -> Hints:
        """Return the topology hints of a container; empty if it has no exclusive CPUs."""
        requested = exclusive_cpus(pod, container)
        if not requested:
            return {}
        held = self.of(pod.uid, container.name)
        if held is not None:
            return {CPU: self._hints(held, frozenset(), requested) if len(held) == requested else []}
        return {CPU: self._hints(self.free, self._reusable_by(pod.uid), requested)}

    def pod_hints(self, pod: Pod) -> Hints:
        """Return the topology hints of a pod."""
        requested = _pod_cpus(pod)
        if not requested:
            return {}
        held: frozenset[int] = frozenset()
        for container in containers_in_order(pod):
            own = self.of(pod.uid, container.name)
            if own is not None and len(own) != exclusive_cpus(pod, container):
                return {CPU: []}
            held |= own or frozenset()
        if len(held) == requested:
            return {CPU: self._hints(held, frozenset(), requested)}
        return {CPU: self._hints(self.free, self._reusable_by(pod.uid) | held, requested)}

    def _hints(self, available: frozenset[int], reusable: frozenset[int], requested: int) -> list[Hint]:
        """Return the sets of NUMA nodes with enough CPUs; they must include the CPUs to reuse."""
        topology = self._topology
        nodes, smallest, fitting = topology.ids("node"), len(topology.ids("node")), []
        for mask in masks(nodes):
            inside = topology.within("node", mask)
            if len(inside) >= requested:
                smallest = min(smallest, len(mask))
            if reusable <= inside and len(inside & (available | reusable)) >= requested:
                fitting.append(mask)
        return [Hint(mask, self._preferred(mask, smallest)) for mask in fitting]

    def _preferred(self, mask: frozenset[int], smallest: int) -> bool:
        if len(mask) == smallest:
            return True
        nodes_per_socket = len(self._topology.ids("node")) // len(self._topology.ids("socket"))
        if not self._options.by_socket or not nodes_per_socket:
            return False
        sockets = self._topology.ids("socket", self._topology.within("node", mask))
        return len(sockets) == -(-smallest // nodes_per_socket)

    # --- allocation -----------------------------------------------------------------------------------------

    def allocate(self, pod: Pod, container: Container, hint: Hint) -> bool:
        """Assign exclusive CPUs to the container, preferably on the nodes of *hint*; return whether anything changed.

        :raises AdmissionRejected: the policy requires full cores, which are not requested or not available.
        :raises AllocationFailed: not enough CPUs are available.
        """
        requested = exclusive_cpus(pod, container)
        if not requested:
            return False
        held = self.of(pod.uid, container.name)
        if held is None:
            if self._options.full_cores:
                self._check_cores(requested)
            taken = self._take(requested, hint, self._reusable_by(pod.uid))
            self.shared -= taken
            self.entries.setdefault(pod.uid, {})[container.name] = taken
        self._note_reusable(pod, container, held if held is not None else taken)
        return held is None

    def release(self, uid: str) -> bool:
        """Release the CPUs of the pod; return whether it had any."""
        for cpus in (held := self.entries.pop(uid, {})).values():
            self.shared |= cpus
        return bool(held)

    def _check_cores(self, requested: int) -> None:
        per_core = self._topology.cpus_per_core
        if requested % per_core:
            raise AdmissionRejected(
                f"SMT Alignment Error: requested {requested} cpus not multiple cpus per core = {per_core}",
                reason=_SMT_REASON,
            )
        free = len(self.shared - self._reserved_cores)
        if requested > free:
            raise AdmissionRejected(
                f"SMT Alignment Error: not enough free physical CPUs: available physical CPUs = {free}, "
                f"requested CPUs = {requested}, CPUs per core = {per_core}",
                reason=_SMT_REASON,
            )

    def _take(self, requested: int, hint: Hint, reusable: frozenset[int]) -> frozenset[int]:
        """Select the CPUs of init containers before free ones, and CPUs of the hinted nodes before others."""
        near = self._topology.all
        if hint.nodes is not None:
            near = self._topology.within("node", hint.nodes)
            if self._options.by_socket:
                near = self._topology.within("socket", self._topology.ids("socket", near))
        available = self.free | reusable
        check_room(available, requested)
        taken: frozenset[int] = frozenset()
        for preferred in (reusable & near, available & near):
            left = preferred - taken
            taken |= self._choose(left, min(requested - len(taken), len(left)))
        return taken | self._choose(available - taken, requested - len(taken))

    def _choose(self, available: frozenset[int], requested: int) -> frozenset[int]:
        options = self._options
        if not options.distribute:
            return take_packed(
                self._topology,
                available,
                requested,
                by_cache=options.by_cache,
                across_cores=options.across_cores,
            )
        group = self._topology.cpus_per_core if options.full_cores else 1
        return take_distributed(self._topology, available, requested, group)

    def _reusable_by(self, uid: str) -> frozenset[int]:
        owner, cpus = self._reusable
        return cpus if owner == uid else frozenset()

    def _note_reusable(self, pod: Pod, container: Container, cpus: frozenset[int]) -> None:
        reusable = self._reusable_by(pod.uid)
        ends = container in (pod.spec.init_containers or ()) and not container.restartable_init
        self._reusable = (pod.uid, reusable | cpus if ends else reusable - cpus)

    # --- state ----------------------------------------------------------------------------------------------

    def to_state(self) -> dict[str, Any]:
        return {
            "defaultCpuSet": format_cpu_list(self.shared),
            "entries": {
                uid: {name: format_cpu_list(cpus) for name, cpus in held.items()} for uid, held in self.entries.items()
            },
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the state from before a restart.

        :raises StaleState: the state does not match the host or the reserved CPUs.
        """
        try:
            shared = parse_cpu_list(state.get("defaultCpuSet", ""))
            entries = {
                uid: {name: parse_cpu_list(text) for name, text in held.items()}
                for uid, held in (state.get("entries") or {}).items()
            }
        except (AttributeError, ValueError) as error:
            raise StaleState(f"invalid CPU lists: {error}") from error
        if not shared:
            raise StaleState("default cpuset cannot be empty")
        if self._options.strict and self.reserved & shared:
            raise StaleState(
                f'some of strictly reserved cpus: "{format_cpu_list(self.reserved & shared)}" are present in '
                f'defaultCpuSet: "{format_cpu_list(shared)}"'
            )
        if not self._options.strict and not self.reserved <= shared:
            raise StaleState(
                f'not all reserved cpus: "{format_cpu_list(self.reserved)}" are present in defaultCpuSet: '
                f'"{format_cpu_list(shared)}"'
            )
        known = set(shared)
        for uid, held in entries.items():
            for name, cpus in held.items():
                if cpus & shared:
                    raise StaleState(
                        f'pod: {uid}, container: {name} cpuset: "{format_cpu_list(cpus)}" overlaps with default '
                        f'cpuset "{format_cpu_list(shared)}"'
                    )
                known |= cpus
        if known != self._pool:
            raise StaleState(
                f'current set of available CPUs "{format_cpu_list(self._pool)}" doesn\'t match with CPUs in '
                f'state "{format_cpu_list(known)}"'
            )
        self.shared, self.entries = shared, entries


def containers_in_order(pod: Pod) -> list[Container]:
    """Return init containers, then regular ones."""
    return [*(pod.spec.init_containers or ()), *pod.spec.containers]


def exclusive_cpus(pod: Pod, container: Container) -> int:
    """Return the number of exclusive CPUs: the request of a container in a guaranteed pod, if it is an integer.

    Containers of a pod with pod-level resources have none.
    """
    if qos_class(pod) is not QosClass.GUARANTEED or has_pod_level_resources(pod):
        return 0
    request = {**container_limits(container), **container_requests(container)}.get(CPU)
    milli = request.milli_value() if request is not None else 0
    return 0 if milli % _MILLI else milli // _MILLI


def _pod_cpus(pod: Pod) -> int:
    starting = sidecars = 0
    for container in pod.spec.init_containers or ():
        requested = exclusive_cpus(pod, container)
        if container.restartable_init:
            sidecars += requested
        else:
            starting = max(starting, sidecars + requested)
    return max(starting, sidecars + sum(exclusive_cpus(pod, container) for container in pod.spec.containers))
