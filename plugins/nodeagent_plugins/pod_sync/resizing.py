"""Resizes of running containers through the runtime and the pod's cgroup."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from nodeagent.contracts.context import StatsContext
from nodeagent.contracts.runtime import ContainerState, RuntimeContainerStatus
from nodeagent.errors import NodeAgentError
from nodeagent.model.pod import Container, Pod
from nodeagent.model.resizing import resizable_containers, with_effective_limits
from nodeagent_plugins.pod_sync.actions import ContainerChecks, Kill
from nodeagent_plugins.pod_sync.metrics import RESIZE_MILLISECONDS
from nodeagent_plugins.pod_sync.pod_limits import PodLimits
from nodeagent_plugins.pod_sync.resize_plan import (
    ContainerUpdate,
    ResizePlan,
    RunningContainer,
    plan_resize,
    restart_required,
    shortage,
)
from nodeagent_plugins.pod_sync.step import Step

RETRY_SECONDS = 10.0
_log = logging.getLogger(__name__)


class ResizeFailure(NodeAgentError):
    """The resources of a running container cannot be changed yet."""


class ContainerResizer:
    """Applies the resources of pods to their running containers."""

    def __init__(self, context: StatsContext) -> None:
        self._context = context
        self._init = context.gates.enabled("InPlacePodVerticalScalingInitContainers")
        self._pod_level = context.gates.enabled("InPlacePodLevelResourcesVerticalScaling")

    def checks(self, step: Step) -> ContainerChecks:
        """Return the checks that decide about restarts of the pod's containers."""
        allocations, uid = self._context.allocations, step.pod.uid

        def changed(container: Container, seen: RuntimeContainerStatus) -> bool:
            recorded = allocations.actuated(uid, container.name) is not None
            return step.memory.definitions.changed(container, seen, resizable=recorded)

        def resized(container: Container, _seen: RuntimeContainerStatus) -> bool:
            effective = self.effective(step.pod, container)
            return allocations.resizing and restart_required(effective, allocations.actuated(uid, container.name))

        return ContainerChecks(self._context.prober.result, changed, resized)

    def effective(self, pod: Pod, container: Container) -> Container:
        """Return *container* with the resources that count for it, including limits of the pod."""
        return with_effective_limits(pod, container) if self._pod_level else container

    async def resize(self, step: Step, kills: Sequence[Kill]) -> bool:
        """Resize the running containers; return whether all resources of the pod are in effect.

        Failures are recorded in *step*, and the resize is retried.

        :param kills: containers that this step stops.
        """
        if not self._context.allocations.resizing:
            return True
        own = self._context.allocations.pod_actuated(step.pod.uid) if self._pod_level else None
        killed = {kill.status.id for kill in kills}
        running = self._running(step)
        restarting = [each for each in running if each.id in killed]
        plan = plan_resize(
            step.pod,
            [each for each in running if each.id not in killed],
            self._context.cgroups.pod_resources,
            restarting=[each for each in restarting if restart_required(each.container, each.actuated)],
            own=own,
        )
        if plan is None:
            return True
        clock, done = self._context.clock, False
        started = clock.now()
        try:
            await self._check_memory(step, plan)
            await self._apply(step, plan)
            done = True
        except NodeAgentError as error:
            _log.error("Failed to resize pod", extra={"pod": step.pod.full_name, "err": str(error)})
            step.resize_error = str(error)
            step.retry_in(RETRY_SECONDS)
        finally:
            RESIZE_MILLISECONDS.observe((clock.now() - started) * 1000, "true" if done else "false")
        return done

    def _running(self, step: Step) -> list[RunningContainer]:
        pod, found = step.pod, []
        for _, container in resizable_containers(pod, init=self._init):
            run = step.observed.newest(container.name)
            if run is not None and run.state is ContainerState.RUNNING:
                actuated = self._context.allocations.actuated(pod.uid, container.name)
                found.append(RunningContainer(run.id, self.effective(pod, container), actuated))
        return found

    async def _check_memory(self, step: Step, plan: ResizePlan) -> None:
        """Check that no memory limit is lowered below the usage, because the kernel would kill processes.

        :raises ResizeFailure: the usage is too high or unknown.
        """
        if not plan.pod_memory and not plan.container_memory:
            return
        try:
            pods = await self._context.stats.memory()
        except NodeAgentError as error:
            raise ResizeFailure(f'unable to read memory usage for pod "{step.pod.full_name}"') from error
        usage = next((pod for pod in pods if pod.uid == step.pod.uid), None)
        containers = {
            each.name: each.memory.usage_bytes
            for each in (usage.containers if usage is not None else ())
            if each.memory is not None and each.memory.usage_bytes is not None
        }
        pod_usage = usage.memory.usage_bytes if usage is not None and usage.memory is not None else None
        errors = shortage(plan, pod_usage, containers)
        if errors:
            text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
            raise ResizeFailure(f"cannot decrease memory limits: {text}")

    async def _apply(self, step: Step, plan: ResizePlan) -> None:
        context, pod = self._context, step.pod
        pod_limits = PodLimits(context, step.observed.sandboxes[0].id, plan.previous, pod)
        for change in plan.steps:
            if isinstance(change, ContainerUpdate):
                resources = context.cgroups.container_resources(pod, change.container)
                await context.runtime.update_resources(change.container_id, resources)
                step.touched.add(change.container_id)
                name = change.container.name
                await context.allocations.record_actuated(pod.uid, name, change.container.resources)
            else:
                await pod_limits.set(change)
