"""CPU, memory and topology managers: align, assign and release resources, and reconcile running containers."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Sequence
from pathlib import Path

from nodeagent import hookimpl
from nodeagent.contracts.background import BackgroundLoop
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.pod_resources import ResourceReporter
from nodeagent.contracts.pods import Rejection
from nodeagent.contracts.runtime import (
    LABEL_POD_UID,
    ContainerConfig,
    ContainerState,
    LinuxResources,
)
from nodeagent.contracts.topology import Hint, HintProvider, Hints
from nodeagent.errors import NodeAgentError, RuntimeFailure
from nodeagent.model.pod import Container, Pod
from nodeagent_plugins.resource_managers import checksum, metrics
from nodeagent_plugins.resource_managers.accounting import allocate_cpus, allocate_memory, expose_cpus
from nodeagent_plugins.resource_managers.alignment import NONE, SINGLE, Alignment
from nodeagent_plugins.resource_managers.checkpoint import Checkpoint
from nodeagent_plugins.resource_managers.cpu import CpuAssignments, containers_in_order
from nodeagent_plugins.resource_managers.errors import AdmissionRejected, StaleState
from nodeagent_plugins.resource_managers.memory import MemoryAssignments
from nodeagent_plugins.resource_managers.metrics import ALIGNED, CONTAINER_SCOPE, NOT_ALIGNED, NUMA_NODE, POD_SCOPE
from nodeagent_plugins.resource_managers.reporter import AssignmentReporter
from nodeagent_plugins.resource_managers.start import make_alignment, make_cpus, make_memory
from nodeagent_plugins.resource_managers.state_files import CPU_STATE, MEMORY_STATE
from nodeagent_plugins.resource_managers.topology import format_cpu_list, read_topology

_log = logging.getLogger(__name__)

_POLICY_NAMES = {"none": "None", "static": "Static"}
"""Policy names in the memory manager's state file."""


class ResourceManagers:
    """CPU, memory and topology managers of the node.

    :param providers: further resources to align, which are assigned before CPUs and memory.
    :param root: root directory of the kernel's files.
    """

    name = "resource managers"

    def __init__(
        self, context: AgentContext, providers: Sequence[HintProvider] = (), *, root: Path = Path("/")
    ) -> None:
        self._context, self._providers, self._root = context, providers, root
        config = context.config
        self._cpu_policy, self._memory_policy = config.cpu_manager_policy.lower(), config.memory_manager_policy.lower()
        self._alignment: Alignment | None = None
        self._cpus: CpuAssignments | None = None
        self._memory: MemoryAssignments | None = None
        self._cpu_file = Checkpoint(context.root_dir / CPU_STATE, self._cpu_policy, checksum.of_cpus)
        self._memory_file = Checkpoint(
            context.root_dir / MEMORY_STATE, _POLICY_NAMES[self._memory_policy], checksum.of_memory
        )
        self._parts: list[tuple[Checkpoint, CpuAssignments | MemoryAssignments]] = []
        """Managed assignments and their state files."""
        self._lock = asyncio.Lock()
        """Held while assignments change and are written to disk."""
        self._unsaved = False
        self._admitting = ""
        """UID of the pod admitted last, which may not be active yet."""
        self._created: dict[tuple[str, str], str] = {}
        self._written: dict[str, str] = {}
        """CPU set last passed to the runtime, by container ID."""

    # --- start ----------------------------------------------------------------------------------------------

    @hookimpl
    def nodeagent_provide_background_loops(self) -> Sequence[BackgroundLoop]:
        self.start()
        return [self] if self._parts else []

    def start(self) -> None:
        """Read the host's topology and restore assignments from before a restart. Blocks.

        :raises ConfigError: the configuration does not match the host.
        :raises StaleState: a state file does not match the host or the configuration.
        """
        config = self._context.config
        topology = read_topology(self._root)
        self._alignment = make_alignment(config, topology)
        if self._cpu_policy == "static":
            self._cpus = make_cpus(config, topology)
        if self._memory_policy == "static":
            self._memory = make_memory(config, topology)
        for file, part in ((self._cpu_file, self._cpus), (self._memory_file, self._memory)):
            state = file.read()
            if part is None:
                continue
            self._parts.append((file, part))
            try:
                if state is not None:
                    part.restore(state)
            except StaleState as error:
                raise file.stale(str(error)) from error
        self._unsaved = True
        if self._cpus is not None:
            expose_cpus(self._cpus)
            if self._context.gates.enabled("DisableCPUQuotaWithExclusiveCPUs"):
                self._context.cgroups.exempt_from_quota(self._cpus.has_exclusive)

    @hookimpl
    def nodeagent_provide_resource_reporters(self) -> Sequence[ResourceReporter]:
        return [AssignmentReporter(lambda: self._cpus, lambda: self._memory)]

    # --- pod lifecycle --------------------------------------------------------------------------------------

    @hookimpl
    async def nodeagent_admit_pod(self, pod: Pod, active: Sequence[Pod]) -> Rejection | None:
        self._admitting = pod.uid
        await self._release_stale(active)
        async with self._lock:
            try:
                self._unsaved |= self._admit(pod)
            except AdmissionRejected as error:
                return Rejection(error.reason, str(error))
            except NodeAgentError as error:
                return Rejection(error.reason, f"Allocate failed due to {error}, which is unexpected")
            await self._save()
        return None

    @hookimpl
    async def nodeagent_pod_terminated(self, pod: Pod) -> None:
        await self._release([pod.uid])

    @hookimpl
    async def nodeagent_mutate_container(
        self, pod: Pod, container: Container, settings: ContainerConfig
    ) -> ContainerConfig | None:
        resources = settings.resources
        if self._cpus is not None:
            cpus = self._cpu_list(pod.uid, container.name)
            self._created[pod.uid, container.name] = cpus
            resources = dataclasses.replace(resources, cpuset_cpus=cpus)
        nodes = self._memory.nodes_of(pod.uid, container.name) if self._memory is not None else None
        if nodes:
            resources = dataclasses.replace(resources, cpuset_mems=format_cpu_list(nodes))
        return None if resources is settings.resources else dataclasses.replace(settings, resources=resources)

    @hookimpl
    async def nodeagent_container_started(self, pod: Pod, container: Container, container_id: str) -> None:
        cpus = self._created.pop((pod.uid, container.name), None)
        if cpus is not None:
            self._written[container_id] = cpus

    # --- assignment -----------------------------------------------------------------------------------------

    def _admit(self, pod: Pod) -> bool:
        """Assign the resources of all containers or of none; return whether anything changed.

        :raises AdmissionRejected: the policies do not allow the alignment.
        :raises NodeAgentError: not enough resources are available.
        """
        held = [part for _, part in self._parts if pod.uid in part.entries]
        clock = self._context.clock
        metrics.ADMISSIONS.inc()
        try:
            with metrics.ADMISSION_MILLISECONDS.time(lambda: clock.now() * 1000):
                return self._align(pod)
        except NodeAgentError:
            metrics.ADMISSION_ERRORS.inc()
            for provider in self._providers:
                provider.release(pod.uid)
            for _, part in self._parts:
                if part not in held:
                    part.release(pod.uid)
            raise

    def _align(self, pod: Pod) -> bool:
        """Assign resources per container, or with the same alignment for the pod.

        spec: config.topologyManagerPolicy, config.topologyManagerScope
        """
        alignment = self._alignment
        assert alignment is not None, "start() was not called"
        whole: Hint | None = None
        if alignment.policy == NONE:
            whole = Hint()
        elif self._context.config.topology_manager_scope == "pod":
            whole = _merged(alignment, [part.pod_hints(pod) for part in self._hint_sources()], POD_SCOPE)
        changed = False
        for container in containers_in_order(pod):
            hint = whole
            if hint is None:
                hints = [part.container_hints(pod, container) for part in self._hint_sources()]
                hint = _merged(alignment, hints, CONTAINER_SCOPE)
            changed |= self._assign(pod, container, hint)
            if whole is None and alignment.policy == SINGLE:
                ALIGNED.inc(CONTAINER_SCOPE, NUMA_NODE)
        if whole is not None and alignment.policy == SINGLE:
            ALIGNED.inc(POD_SCOPE, NUMA_NODE)
        return changed

    def _assign(self, pod: Pod, container: Container, hint: Hint) -> bool:
        changed = False
        for provider in self._providers:
            provider.allocate(pod, container, hint)
        if self._cpus is not None:
            changed = allocate_cpus(self._cpus, pod, container, hint)
        if self._memory is not None:
            changed |= allocate_memory(self._memory, pod, container, hint)
        return changed

    def _hint_sources(self) -> Sequence[HintProvider | CpuAssignments | MemoryAssignments]:
        return [*self._providers, *(part for _, part in self._parts)]

    def _cpu_list(self, uid: str, container: str) -> str:
        assert self._cpus is not None
        return format_cpu_list(self._cpus.of(uid, container) or self._cpus.shared)

    # --- release --------------------------------------------------------------------------------------------

    async def _release(self, uids: Sequence[str]) -> None:
        async with self._lock:
            changed = [part.release(uid) for _, part in self._parts for uid in uids]
            self._unsaved |= any(changed)
            await self._save()

    async def _release_stale(self, active: Sequence[Pod]) -> None:
        """Release the resources of pods that are not active and have no running containers.

        Right after a restart not all pods are known, but their containers are running, so they keep their resources.
        """
        requested = {pod.uid for pod in active} | {self._admitting}
        strange = {uid for _, part in self._parts for uid in part.entries} - requested
        if not strange:
            return
        try:
            containers = await self._context.runtime.list_containers()
        except RuntimeFailure as error:
            _log.warning("Failed to list containers of stale assignments", extra={"err": str(error)})
            return
        alive = {each.labels.get(LABEL_POD_UID, "") for each in containers if each.state is not ContainerState.EXITED}
        stale = sorted(strange - alive - {self._admitting})
        if stale:
            for uid in stale:
                _log.info("RemoveStaleState: removing container", extra={"podUID": uid})
            await self._release(stale)

    async def _save(self) -> None:
        """Write the state files; a failure is retried with the next change or pass."""
        if not self._unsaved:
            return
        try:
            for file, part in self._parts:
                await asyncio.to_thread(file.write, part.to_state())
        except OSError as error:
            _log.error("Failed to write state checkpoint", extra={"err": str(error)})
        else:
            self._unsaved = False

    # --- reconciliation -------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Reconcile CPU sets until cancelled.

        spec: config.cpuManagerReconcilePeriod
        """
        period = self._context.config.cpu_manager_reconcile_period.seconds
        async with self._lock:
            await self._save()
        while True:
            await self._context.clock.sleep(period)
            await self.reconcile()

    async def reconcile(self) -> None:
        """Release stale assignments, and update the CPU set of each running container if it changed."""
        active = self._context.pods.active()
        await self._release_stale(active)
        async with self._lock:
            await self._save()
        if self._cpus is None:
            return
        seen: dict[str, str] = {}
        for pod in active:
            observed = self._context.pods.observed(pod.uid)
            for container in observed.containers if observed is not None else ():
                if container.state is ContainerState.RUNNING:
                    cpus = self._cpu_list(pod.uid, container.name)
                    if await self._update_cpu_set(container.id, cpus):
                        seen[container.id] = cpus
        self._written = seen
        uids = {pod.uid for pod in active}
        self._created = {key: cpus for key, cpus in self._created.items() if key[0] in uids}

    async def _update_cpu_set(self, container_id: str, cpus: str) -> bool:
        if self._written.get(container_id) == cpus:
            return True
        if not cpus:  # Strictly reserved CPUs are not shared, and all others may be exclusive.
            _log.info("ReconcileState: skipping container; empty cpuset assigned", extra={"containerID": container_id})
            return True
        try:
            await self._context.runtime.update_resources(container_id, LinuxResources(cpuset_cpus=cpus))
        except RuntimeFailure as error:
            _log.error(
                "ReconcileState: failed to update container",
                extra={"containerID": container_id, "cpuSet": cpus, "err": str(error)},
            )
            return False
        return True


def _merged(alignment: Alignment, hints: Sequence[Hints], scope: str) -> Hint:
    hint, fits = alignment.merge(hints)
    if not fits:
        NOT_ALIGNED.inc(scope, NUMA_NODE, by=alignment.policy == SINGLE)
        raise AdmissionRejected("Resources cannot be allocated with Topology locality", reason="TopologyAffinityError")
    return hint
