"""Pod syncer: executes the steps of ``actions``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

from nodeagent.base.logging import v_level
from nodeagent.contracts.context import StatsContext
from nodeagent.contracts.events import EventType
from nodeagent.contracts.pods import SyncOutcome, WaitingReason
from nodeagent.contracts.runtime import ContainerState, RuntimeContainerStatus, RuntimePod, SandboxConfig
from nodeagent.contracts.runtime_class import read_runtime_handler
from nodeagent.errors import (
    ClaimError,
    DevicesNotReady,
    NodeAgentError,
    RuntimeFailure,
    RuntimeTimeout,
    RuntimeUnavailable,
    VolumeError,
    VolumesNotReady,
)
from nodeagent.model.pod import Pod, PodStatus
from nodeagent.model.restart import is_restarting_all
from nodeagent_plugins.pod_sync.actions import Kill, PodActions, Start, compute_actions
from nodeagent_plugins.pod_sync.cleanup import PodCleaner
from nodeagent_plugins.pod_sync.disk import make_pod_directories
from nodeagent_plugins.pod_sync.hosts import host_names, kernel_hostname
from nodeagent_plugins.pod_sync.lifecycle_hooks import LifecycleHooks
from nodeagent_plugins.pod_sync.metrics import (
    FAILED_CONTAINERS,
    FAILED_PODS,
    FAILED_SANDBOXES,
    FAILED_USER_NAMESPACED_PODS,
    SANDBOX,
    SANDBOX_DURATIONS,
    STARTED_CONTAINERS,
    STARTED_PODS,
    STARTED_USER_NAMESPACED_PODS,
)
from nodeagent_plugins.pod_sync.node_dns import NodeDns
from nodeagent_plugins.pod_sync.paths import PodPaths, pod_logs_directory
from nodeagent_plugins.pod_sync.pod_limits import without_overhead
from nodeagent_plugins.pod_sync.resizing import ContainerResizer
from nodeagent_plugins.pod_sync.sandbox import make_sandbox_config
from nodeagent_plugins.pod_sync.start_slots import StartSlots, default_slots
from nodeagent_plugins.pod_sync.starting import ContainerStarter, host_ips
from nodeagent_plugins.pod_sync.step import PodSyncState, Step
from nodeagent_plugins.pod_sync.stopping import ContainerStopper, HookCaller, Stop, plan_stop
from nodeagent_plugins.pod_sync.subordinate_ids import IdRange
from nodeagent_plugins.pod_sync.subpaths import BindMount
from nodeagent_plugins.pod_sync.user_namespaces import GATE, PodUserNamespaces, check_user_namespaces, id_pool

DISCARD_SECONDS = 5.0
_log = logging.getLogger(__name__)

_Run = tuple[str, int]
"""Name and attempt of a container."""


class BundledPodSyncer:
    """Bundled implementation of :class:`~nodeagent.contracts.pods.PodSyncer`.

    :param log_root: contains ``pods/`` and ``containers/``.
    :param sandboxes_at_once: limit of sandboxes and containers started in parallel; ``None`` selects
        :func:`default_slots`.
    :param bind: bind-mounts sub-paths; ``None`` selects the system call.
    :param subordinate_ids: IDs for pods with a user namespace; ``None`` selects the default range.
    :raises ConfigError: these IDs, or those of a pod from an earlier run, are invalid.
    """

    def __init__(
        self,
        context: StatsContext,
        hook_caller: HookCaller,
        *,
        log_root: Path,
        sandboxes_at_once: int | None = None,
        bind: BindMount | None = None,
        subordinate_ids: IdRange | None = None,
    ) -> None:
        self._context, self._hook_caller, self._log_root = context, hook_caller, log_root
        self._pod_logs = pod_logs_directory(context.config, log_root)
        hooks = LifecycleHooks(
            lambda: context.runtime,
            context.clock,
            sleep_enabled=context.gates.enabled("PodLifecycleSleepAction"),
            release=context.release.release,
        )
        self._stopper = ContainerStopper(
            lambda: context.runtime, lambda: context.recorder, hooks, hook_caller, context.clock
        )
        self._slots = StartSlots(default_slots() if sandboxes_at_once is None else sandboxes_at_once)
        self._starter = ContainerStarter(context, hook_caller, hooks, self._stopper, self._slots, bind)
        self._resizer = ContainerResizer(context)
        pool = id_pool(context.config, subordinate_ids if context.gates.enabled(GATE) else None)
        self._user_namespaces = PodUserNamespaces(context.root_dir / "pods", pool)
        self._cleaner = PodCleaner(context, log_root, self._user_namespaces)
        self._dns = NodeDns(context)
        self._memory: dict[str, PodSyncState] = {}

    # --- PodSyncer ------------------------------------------------------------------------------------------

    async def sync_pod(self, pod: Pod, status: PodStatus, observed: RuntimePod) -> SyncOutcome:
        """Execute the next steps; see :class:`~nodeagent.contracts.pods.PodSyncer`."""
        step = self._step(pod, observed)
        self._context.objects.register_pod(pod)
        self._context.prober.add_pod(pod, observed)
        actions = compute_actions(pod, observed, self._resizer.checks(step), restart_all=is_restarting_all(status))
        try:
            await (self._reset(step, actions.resets) if actions.resets else self._execute(step, actions))
        except NodeAgentError as error:
            step.fail(error)
        if not actions.stop_pod and not actions.resets:
            await self._cleaner.prune(step)
        return step.outcome()

    async def sync_terminating(self, pod: Pod, observed: RuntimePod, grace_seconds: int | None) -> SyncOutcome:
        step = self._step(pod, observed)
        self._context.prober.end_liveness(pod.uid)
        await self._stop_pod(step, grace_seconds)
        return step.outcome()

    async def sync_stopped(self, pod: Pod) -> None:
        if self._context.claims is not None:
            await self._context.claims.release_pod(pod)

    async def sync_terminated(self, pod: Pod, observed: RuntimePod) -> None:
        self._context.prober.remove_pod(pod.uid)
        await self._cleaner.release(pod.uid, self._paths(pod))
        self._context.objects.unregister_pod(pod.uid)
        await self._context.cgroups.remove_pod(pod.uid)

    async def remove_pod(self, pod: Pod, observed: RuntimePod) -> None:
        memory = self._memory.get(pod.uid)
        await self._cleaner.remove(self._paths(pod), observed, memory.stopped_sandboxes if memory else ())
        self._memory.pop(pod.uid, None)

    async def remove_orphans(self, is_known: Callable[[str], bool]) -> None:
        for uid in [uid for uid in self._memory if not is_known(uid)]:
            del self._memory[uid]
        await self._cleaner.remove_orphans(is_known)

    # --- steps ----------------------------------------------------------------------------------------------

    async def _execute(self, step: Step, actions: PodActions) -> None:
        """Stop containers and sandboxes that must not run, then start those that must.

        :raises NodeAgentError: the step must be repeated.
        """
        if actions.stop_pod:
            await self._stop_pod(step, None)
            if step.error is not None:
                return
        elif actions.kills:
            await self._kill(step, actions.kills)
        # A resize changes the limits of the pod and of its containers one by one, in an order that keeps them valid.
        in_effect = actions.create_sandbox or actions.stop_pod or await self._resizer.resize(step, actions.kills)
        if not actions.create_sandbox and not actions.starts:
            if not actions.stop_pod:
                if step.observed.alive and not await self._context.cgroups.exists(step.pod):
                    _log.warning("Pod is outside of its cgroup, restarting it", extra={"pod": step.pod.full_name})
                    await self._stop_pod(step, None)
                    return
                if in_effect:
                    await self._prepare_node(
                        step, new=False
                    )  # The limits may have changed with a restart of the agent.
            await self._prepare_volumes(step)  # Updates the content for running containers.
            return
        taken = await self._discard(step, actions.discards)
        if in_effect:
            await self._prepare_node(step, new=actions.create_sandbox)
        await self._prepare_volumes(step)
        await self._prepare_devices(step, actions)
        await self._prepare_claims(step, actions)
        if actions.create_sandbox:
            await self._create_sandbox(step, actions)
        else:
            await self._adopt_sandbox(step)
        unstopped = {kill.status.name for kill in actions.kills} if step.error is not None else set()
        for start in actions.starts:
            if start.container.name in unstopped:
                continue
            if not await self._starter.start(step, _past(start, taken)) and start.gate:
                break

    async def _discard(self, step: Step, discards: Sequence[RuntimeContainerStatus]) -> Collection[_Run]:
        """Remove containers that were never started; return name and attempt of those that cannot be removed.

        :raises NodeAgentError: the removal failed and is retried for some seconds.
        """
        taken: set[_Run] = set()
        rejected, now = step.memory.failed_discards, self._context.clock.now()
        for status in discards:
            try:
                await self._cleaner.discard(step.paths, status)
            except RuntimeUnavailable:
                raise
            except RuntimeFailure as error:
                if now - rejected.setdefault(status.id, now) < DISCARD_SECONDS:
                    raise
                _log.warning(
                    "Failed to remove container of an interrupted start",
                    extra={
                        "pod": step.pod.full_name,
                        "containerName": status.name,
                        "containerID": status.id,
                        "err": error,
                    },
                )
                taken.add((status.name, status.attempt))
            else:
                rejected.pop(status.id, None)
        return taken

    async def _kill(self, step: Step, kills: Sequence[Kill]) -> None:
        pod, memory = step.pod, step.memory
        stops = [plan_stop(pod, kill.status, probe_seconds=kill.grace_seconds, message=kill.message) for kill in kills]
        step.touched.update(kill.status.id for kill in kills)
        for error in await self._stopper.stop_all(pod, stops, memory.stops, _first_ip(step.observed)):
            step.fail(error)

    async def _reset(self, step: Step, resets: Sequence[RuntimeContainerStatus]) -> None:
        """Kill and remove *resets*, so that the next sync starts the pod again from its first init container.

        :raises NodeAgentError: a container cannot be removed now.
        """
        pod = step.pod
        _log.log(v_level(3), "Pod marked for RestartAllContainers", extra={"pod": pod.full_name})
        alive = [c for c in resets if c.state in (ContainerState.RUNNING, ContainerState.UNKNOWN)]
        stops = [plan_stop(pod, status, override_seconds=0, message="killing") for status in alive]
        step.touched.update(status.id for status in resets)
        errors = await self._stopper.stop_all(pod, stops, step.memory.stops) if stops else []
        for error in errors:
            step.fail(error)
        if errors:
            return
        for status in resets:
            await self._cleaner.reset(step.paths, status)
        step.retry_in(0)

    async def _stop_pod(self, step: Step, grace_seconds: int | None) -> None:
        """Stop all containers, then all sandboxes; failures are recorded in *step*.

        The stop of a sandbox kills its containers. If a container could not be stopped, its sandbox and sidecars are
        retained until the grace period has passed since the first attempt.
        """
        pod, observed, memory = step.pod, step.observed, step.memory
        alive = [c for c in observed.containers if c.state in (ContainerState.RUNNING, ContainerState.UNKNOWN)]
        stops = [plan_stop(pod, status, override_seconds=grace_seconds) for status in alive]
        step.touched.update(status.id for status in alive)
        started = self._context.clock.now()
        forced = self._passed(memory, stops)
        ip = _first_ip(observed)
        errors = await self._stopper.stop_all(pod, stops, memory.stops, ip, forced=forced) if stops else []
        if errors and not self._grace_has_passed(memory, stops, errors, started):
            sandboxes = []
        else:
            memory.stopping_since = None
            sandboxes = [s.id for s in observed.sandboxes if s.ready or s.id not in memory.stopped_sandboxes]
        step.touched.update(sandboxes)
        results = await asyncio.gather(*map(self._context.runtime.stop_sandbox, sandboxes), return_exceptions=True)
        for sandbox_id, result in zip(sandboxes, results, strict=True):
            if isinstance(result, NodeAgentError):
                errors.append(result)
            elif isinstance(result, BaseException):
                raise result
            else:
                memory.stopped_sandboxes.add(sandbox_id)
        for error in errors:
            step.fail(error)
        if errors:
            note = f"error killing pod: {'; '.join(str(error) for error in errors)}"
            self._context.recorder.record(pod.reference(), EventType.WARNING, "FailedKillPod", note)

    def _grace_has_passed(
        self, memory: PodSyncState, stops: Sequence[Stop], errors: Sequence[NodeAgentError], started: float
    ) -> bool:
        """Return whether the longest grace period of *stops* has passed since the first attempt that failed.

        An attempt that did not reach the runtime does not count.
        """
        if memory.stopping_since is None and any(map(_has_reached_runtime, errors)):
            memory.stopping_since = started
        return self._passed(memory, stops)

    def _passed(self, memory: PodSyncState, stops: Sequence[Stop]) -> bool:
        since, grace = memory.stopping_since, max((stop.grace_seconds for stop in stops), default=0)
        return since is not None and self._context.clock.now() - since >= grace

    async def _prepare_node(self, step: Step, *, new: bool) -> None:
        """Create the pod's cgroup, and for a new sandbox its directories."""
        pod, record = step.pod, self._context.recorder.record
        try:
            if new:
                await asyncio.to_thread(make_pod_directories, step.paths)
        except NodeAgentError as error:
            record(pod.reference(), EventType.WARNING, "Failed", str(error))
            raise
        try:
            await self._context.cgroups.ensure_pod(pod)
        except NodeAgentError as error:
            note = f"unable to ensure pod container exists: {error}"
            record(pod.reference(), EventType.WARNING, "FailedCreatePodContainer", note)
            raise
        if pod.spec.resources is not None:
            await self._context.allocations.record_pod_actuated(pod.uid, pod.spec.resources)

    async def _prepare_volumes(self, step: Step) -> None:
        if not step.pod.spec.volumes:
            return
        try:
            step.volumes = await self._context.volumes.prepare(step.pod)
        except VolumesNotReady:  # The operations have recorded the reasons.
            raise
        except VolumeError as error:
            self._context.recorder.record(step.pod.reference(), EventType.WARNING, "FailedMount", str(error))
            raise

    async def _prepare_devices(self, step: Step, actions: PodActions) -> None:
        """Allocate devices before the sandbox is created, since network plugins query them.

        :raises DevicesNotReady: devices are unavailable; the containers wait.
        """
        try:
            await self._context.devices.prepare_pod(step.pod)
        except DevicesNotReady as error:
            for start in actions.starts:
                step.waiting[start.container.name] = WaitingReason(error.reason, str(error))
            raise

    async def _prepare_claims(self, step: Step, actions: PodActions) -> None:
        """Prepare resource claims before the sandbox is created, since network plugins query their devices.

        :raises ClaimError: a claim cannot be prepared now; the containers wait.
        """
        if self._context.claims is None:
            return
        try:
            await self._context.claims.prepare_pod(step.pod)
        except ClaimError as error:
            for start in actions.starts:
                step.waiting[start.container.name] = WaitingReason(error.reason, str(error))
            raise

    async def _create_sandbox(self, step: Step, actions: PodActions) -> None:
        pod, context = step.pod, self._context
        if actions.changed_sandbox:
            _log.log(v_level(2), "Sandbox for pod has changed. Need to start a new one", extra={"pod": pod.full_name})
            note = "Pod sandbox changed, it will be killed and re-created."
            context.recorder.record(pod.reference(), EventType.NORMAL, "SandboxChanged", note)
        else:
            _log.log(
                v_level(2), "No sandbox for pod can be found. Need to start a new one", extra={"pod": pod.full_name}
            )
        STARTED_PODS.inc()
        STARTED_CONTAINERS.inc(SANDBOX)
        own_users = pod.spec.host_users is False
        if own_users:
            STARTED_USER_NAMESPACED_PODS.inc()
        handler = ""
        try:
            handler = step.runtime_handler = await read_runtime_handler(self._context.api, pod)
            if own_users:
                check_user_namespaces(pod, await context.runtime_status(), handler, context.gates)
            config = await self._sandbox_config(step, actions.sandbox_attempt)
            async with self._slots.sandbox():
                started = context.clock.now()
                step.sandbox_id = await context.runtime.run_sandbox(config, handler)
                SANDBOX_DURATIONS.observe(context.clock.now() - started, handler)
        except NodeAgentError as error:
            FAILED_PODS.inc()
            if own_users:
                FAILED_USER_NAMESPACED_PODS.inc()
            FAILED_CONTAINERS.inc(SANDBOX, "CreatePodSandboxError")
            FAILED_SANDBOXES.inc(handler)
            _log.error("Failed to create sandbox for pod", extra={"pod": pod.full_name, "err": error})
            note = f"Failed to create pod sandbox: {error}"
            context.recorder.record(pod.reference(), EventType.WARNING, "FailedCreatePodSandBox", note)
            raise
        step.sandbox = step.memory.sandbox_configs[step.sandbox_id] = config
        step.touched.add(step.sandbox_id)
        if pod.spec.host_network:
            step.ips = host_ips(context)
            return
        try:
            step.created_sandbox = await context.runtime.sandbox_status(step.sandbox_id)
            step.ips = step.created_sandbox.ips
        except NodeAgentError as error:
            note = f"Unable to get pod sandbox status: {error}"
            context.recorder.record(pod.reference(), EventType.WARNING, "FailedPodSandBoxStatus", note)
            raise

    async def _adopt_sandbox(self, step: Step) -> None:
        """Use the existing sandbox."""
        newest = step.observed.sandboxes[0]
        step.sandbox_id, step.runtime_handler = newest.id, newest.runtime_handler
        step.ips = host_ips(self._context) if step.pod.spec.host_network else newest.ips
        config = step.memory.sandbox_configs.get(newest.id)
        if config is None:  # Created before a restart of the agent.
            config = step.memory.sandbox_configs[newest.id] = await self._sandbox_config(step, newest.attempt)
        step.sandbox = config

    async def _sandbox_config(self, step: Step, attempt: int) -> SandboxConfig:
        pod, context = step.pod, self._context
        hostname, domain = host_names(pod, context.config.cluster_domain)
        config = make_sandbox_config(
            pod,
            attempt,
            step.paths,
            hostname=kernel_hostname(pod, hostname, domain),
            dns=await self._dns.of(pod),
            cgroup_parent=context.cgroups.parent_of(pod),
            resources=context.cgroups.pod_resources(without_overhead(pod)),
            user_namespace=await self._user_namespaces.of(pod),
        )
        changed: SandboxConfig = await self._hook_caller.call_chain(
            "nodeagent_mutate_sandbox", "sandbox", config, changes="configuration of the sandbox", pod=pod
        )
        return changed

    # --- helpers --------------------------------------------------------------------------------------------

    def _step(self, pod: Pod, observed: RuntimePod) -> Step:
        memory = self._memory.get(pod.uid)
        if memory is None:
            memory = self._memory[pod.uid] = PodSyncState(self._paths(pod))
        return Step(pod, observed, memory, memory.paths)

    def _paths(self, pod: Pod) -> PodPaths:
        return PodPaths(
            self._context.pod_dir(pod.uid), self._log_root, self._pod_logs, pod.namespace, pod.name, pod.uid
        )


def _past(start: Start, used: Collection[_Run]) -> Start:
    """Return *start* with the first attempt that is not used in the runtime."""
    while not start.resume_id and (start.container.name, start.attempt) in used:
        start = replace(start, attempt=start.attempt + 1)
    return start


def _first_ip(observed: RuntimePod) -> str:
    return observed.ips[0] if observed.ips else ""


def _has_reached_runtime(error: NodeAgentError) -> bool:
    return isinstance(error, RuntimeTimeout) or not isinstance(error, RuntimeUnavailable)
