"""Limits of a pod's cgroup, of which runtimes are notified before they change."""

from __future__ import annotations

import logging
from dataclasses import replace

import msgspec

from nodeagent.contracts.cgroups import PodLimit
from nodeagent.contracts.context import StatsContext
from nodeagent.contracts.runtime import LinuxResources, SandboxResizingRuntime
from nodeagent.errors import NodeAgentError, RuntimeFailure
from nodeagent.model.pod import Pod
from nodeagent_plugins.pod_sync.sandbox import overhead_resources

_log = logging.getLogger(__name__)
_NOT_IMPLEMENTED = "not implemented"


class PodLimits:
    """Changes the limits of one pod, one after the other.

    :param previous: the pod with the resources in effect.
    :param pod: the pod with those to apply.
    """

    def __init__(self, context: StatsContext, sandbox_id: str, previous: Pod, pod: Pod) -> None:
        self._context, self._sandbox_id, self._pod = context, sandbox_id, pod
        self._current, self._desired = (
            context.cgroups.pod_resources(without_overhead(each)) for each in (previous, pod)
        )

    async def set(self, limit: PodLimit) -> None:
        """Set one limit; if the kernel rejects it, the runtime is notified of the current resources again.

        :raises NodeAgentError: the runtime or the kernel rejects the limit.
        """
        changed = _with_limit(self._current, self._desired, limit)
        await self._notify(changed)
        try:
            await self._context.cgroups.limit_pod(self._pod, limit)
        except NodeAgentError:
            try:
                await self._notify(self._current)
            except NodeAgentError as error:
                fields = {"pod": self._pod.full_name, "podSandboxID": self._sandbox_id, "err": str(error)}
                _log.error("Failed to notify runtime to roll back sandbox resources", extra=fields)
            raise
        self._current = changed

    async def _notify(self, resources: LinuxResources) -> None:
        """Notify the runtime of the pod's resources; not all runtimes implement it."""
        runtime = self._context.runtime
        if not isinstance(runtime, SandboxResizingRuntime):
            return
        overhead = None
        if self._pod.spec.overhead:
            period = self._context.config.cpu_cfs_quota_period.nanoseconds // 1000
            overhead = overhead_resources(self._pod, period)
        try:
            await runtime.update_sandbox_resources(self._sandbox_id, overhead, resources)
        except NotImplementedError:
            return
        except RuntimeFailure as error:
            if _NOT_IMPLEMENTED not in str(error):
                raise


def without_overhead(pod: Pod) -> Pod:
    """Return *pod* with the resources of its containers only; the runtime adds the overhead."""
    if not pod.spec.overhead:
        return pod
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, overhead=None))


def _with_limit(current: LinuxResources, desired: LinuxResources, limit: PodLimit) -> LinuxResources:
    match limit:
        case PodLimit.MEMORY:
            return replace(current, memory_limit_bytes=desired.memory_limit_bytes)
        case PodLimit.CPU:
            return replace(current, cpu_quota=desired.cpu_quota, cpu_period=desired.cpu_period)
        case PodLimit.CPU_SHARES:
            return replace(current, cpu_shares=desired.cpu_shares)
