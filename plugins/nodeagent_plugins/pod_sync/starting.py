"""Start of a container: image, environment, files, configuration, create, start, postStart."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from nodeagent.base import identity
from nodeagent.base.duration import Duration
from nodeagent.base.gates import FeatureGates
from nodeagent.contracts.context import StatsContext
from nodeagent.contracts.device_responses import DeviceResponse
from nodeagent.contracts.events import EventType
from nodeagent.contracts.images import PulledImage
from nodeagent.contracts.pods import WaitingReason
from nodeagent.contracts.runtime import ContainerConfig, ContainerState, ImageMount, RuntimeContainerStatus
from nodeagent.errors import (
    ApiError,
    ClaimError,
    ContainerError,
    DeviceError,
    ImageError,
    NodeAgentError,
    RuntimeFailure,
    RuntimeUnavailable,
)
from nodeagent.model.meta import ObjectReference
from nodeagent.model.pod import Container, ContainerKind, Pod, container_field_path
from nodeagent.model.resizing import with_effective_limits
from nodeagent.model.unsupported_fields import unsupported_in_container
from nodeagent_plugins.pod_sync import backoff
from nodeagent_plugins.pod_sync.actions import Start
from nodeagent_plugins.pod_sync.block_volumes import volume_devices
from nodeagent_plugins.pod_sync.container import make_container_config
from nodeagent_plugins.pod_sync.definitions import container_hash
from nodeagent_plugins.pod_sync.disk import link_log
from nodeagent_plugins.pod_sync.environment import (
    Environment,
    PodEnvironmentInputs,
    host_resources,
    make_environment,
)
from nodeagent_plugins.pod_sync.event_texts import created_text, started_text
from nodeagent_plugins.pod_sync.hosts import host_names
from nodeagent_plugins.pod_sync.image_volumes import count_created, image_mounts
from nodeagent_plugins.pod_sync.lifecycle_hooks import HookFailure, LifecycleHooks
from nodeagent_plugins.pod_sync.metrics import (
    CONTAINER_TYPES,
    FAILED_CONTAINERS,
    HTTP_FALLBACKS,
    STARTED_CONTAINERS,
)
from nodeagent_plugins.pod_sync.mounts import HostsContent, prepare_files, volume_parts, with_mapped_owners
from nodeagent_plugins.pod_sync.security import container_security
from nodeagent_plugins.pod_sync.start_slots import StartSlots
from nodeagent_plugins.pod_sync.step import Step
from nodeagent_plugins.pod_sync.stopping import ContainerStopper, HookCaller, plan_stop
from nodeagent_plugins.pod_sync.subpaths import BindMount
from nodeagent_plugins.pod_sync.volume_groups import with_volume_groups

CONFIG_ERROR = "CreateContainerConfigError"
IMAGE_RETRY_SECONDS = 10.0
STATIC_POD_SERVICES_SECONDS = 1.0
_log = logging.getLogger(__name__)


class ContainerStarter:
    """Starts containers of pods with a ready sandbox.

    :param bind: bind-mounts sub-paths; ``None`` selects the system call.
    """

    def __init__(
        self,
        context: StatsContext,
        hook_caller: HookCaller,
        hooks: LifecycleHooks,
        stopper: ContainerStopper,
        slots: StartSlots,
        bind: BindMount | None = None,
    ) -> None:
        self._context, self._hook_caller, self._hooks, self._stopper = context, hook_caller, hooks, stopper
        self._slots, self._bind = slots, bind

    async def start(self, step: Step, start: Start) -> bool:
        """Start one container; record in *step* why it is waiting. Return whether it was started.

        :raises RuntimeUnavailable: the runtime is unreachable.
        """
        container, pod = start.container, step.pod
        reference = pod.reference(container_field_path(start.kind, container.name))
        try:
            if start.resume_id:
                container_id, attempt = start.resume_id, start.attempt
            else:
                if self._held_back(step, start, reference):
                    return False
                STARTED_CONTAINERS.inc(CONTAINER_TYPES[start.kind])
                container_id, attempt = await self._create(step, start, reference)
            await self._run(step, start, container_id, attempt, reference)
        except ImageError as error:
            FAILED_CONTAINERS.inc(CONTAINER_TYPES[start.kind], error.reason)
            step.waiting[container.name] = WaitingReason(error.reason, str(error))
            if error.reason == "ImagePullBackOff":
                step.retry_in(IMAGE_RETRY_SECONDS)
            else:
                step.fail(error)
        except ContainerError as error:
            FAILED_CONTAINERS.inc(CONTAINER_TYPES[start.kind], error.reason)
            step.waiting[container.name] = WaitingReason(error.reason, str(error))
            if error.reason != "PostStartHookError":
                self._context.recorder.record(reference, EventType.WARNING, "Failed", f"Error: {error}")
            step.fail(error)
        else:
            return True
        return False

    def _held_back(self, step: Step, start: Start, reference: ObjectReference) -> bool:
        """Record the back-off of a container that exited too recently."""
        container, pod = start.container, step.pod
        now, spec_hash, runs = self._now(), container_hash(container), _runs(step, container)
        limits = backoff.backoff_limits(self._context.config, self._context.gates)
        left = backoff.remaining(runs, spec_hash, now, limits)
        if left <= 0:
            return False
        pause = Duration.of(seconds=backoff.current_backoff(runs, spec_hash, now, limits))
        where = f"{pod.name}_{pod.namespace}({pod.uid})"
        message = f"back-off {pause} restarting failed container={container.name} pod={where}"
        step.waiting[container.name] = WaitingReason("CrashLoopBackOff", message)
        step.retry_in(left)
        note = f"Back-off restarting failed container {container.name} in pod {where}"
        self._context.recorder.record(reference, EventType.WARNING, "BackOff", note)
        return True

    async def _create(self, step: Step, start: Start, reference: ObjectReference) -> tuple[str, int]:
        """Create the container and return its ID and attempt.

        :raises ContainerError: the container cannot be created.
        """
        context, pod, container = self._context, step.pod, start.container
        assert step.sandbox is not None
        if start.kind is ContainerKind.EPHEMERAL:
            _check_supported(container, context.gates)
        requested = context.clock.now()
        try:
            volume_images = await image_mounts(step, container, context.puller)
            image = await context.puller.ensure(pod, start.kind, container, step.sandbox)
        finally:
            step.image_seconds += context.clock.now() - requested
        try:
            config = await self._configure(step, start, image, volume_images, reference)
        except (ContainerError, RuntimeFailure):
            raise
        except NodeAgentError as error:
            raise ContainerError(str(error), reason=CONFIG_ERROR) from error
        try:
            config = await self._hook_caller.call_chain(
                "nodeagent_mutate_container",
                "settings",
                config,
                changes=f"configuration of container {container.name}",
                pod=pod,
                container=container,
            )
        except NodeAgentError as error:
            raise ContainerError(str(error), reason="PreCreateHookError") from error
        try:
            container_id = await context.runtime.create_container(step.sandbox_id, config, step.sandbox)
        except RuntimeUnavailable:
            raise
        except RuntimeFailure as error:
            count_created(volume_images, str(error))
            raise ContainerError(str(error)) from error
        count_created(volume_images)
        step.touched.add(container_id)
        pod_level = context.gates.enabled("InPlacePodLevelResourcesVerticalScaling")
        applied = with_effective_limits(pod, container) if pod_level else container
        await context.allocations.record_actuated(pod.uid, container.name, applied.resources)
        context.recorder.record(
            reference, EventType.NORMAL, "Created", created_text(container.name, context.release.release)
        )
        return container_id, config.attempt

    async def _configure(
        self,
        step: Step,
        start: Start,
        image: PulledImage,
        volume_images: Mapping[str, ImageMount],
        reference: ObjectReference,
    ) -> ContainerConfig:
        """Collect the inputs of the container and return its configuration."""
        context, pod, container = self._context, step.pod, start.container
        environment = await self._environment(step, container, reference)
        devices = self._devices_of(pod, container)
        variables = {**devices.envs, **environment.variables}
        assert step.sandbox is not None
        user_namespace = step.sandbox.security.namespaces.user
        security = container_security(
            pod,
            container,
            image.image,
            seccomp_default=context.config.seccomp_default,
            seccomp_root=context.root_dir / "seccomp",
            unmask_proc=context.gates.enabled("ProcMountType"),
            target_id=_target_id(step, start),
            user_namespace=user_namespace,
        )
        security = with_volume_groups(security, step.volumes)
        parts = volume_parts(
            container,
            {**step.volumes, **volume_images},
            variables,
            recursive_supported=await self._supports_recursive_readonly(step, container),
        )
        hostname, domain = host_names(pod, context.config.cluster_domain)
        files = await asyncio.to_thread(
            prepare_files,
            pod,
            container,
            start.attempt,
            step.paths,
            parts,
            HostsContent(step.ips, hostname, domain),
            first=start.attempt == 0,
            bind=self._bind,
        )
        return make_container_config(
            pod,
            container,
            image=image,
            variables=variables,
            files=files if user_namespace is None else with_mapped_owners(files, user_namespace),
            security=security,
            resources=context.cgroups.container_resources(pod, container),
            sandbox_id=step.sandbox_id,
            backoff_seconds=backoff.next_backoff(
                _runs(step, container),
                container_hash(container),
                self._now(),
                backoff.backoff_limits(context.config, context.gates),
            ),
            stop_signal=self._stop_signal(container),
            block_devices=volume_devices(container, step.volumes),
            devices=devices,
        )

    def _devices_of(self, pod: Pod, container: Container) -> DeviceResponse:
        """Return what claims and device plugins add to the container.

        :raises ContainerError: a claim is not prepared.
        """
        devices, claims = self._context.devices.container_response(pod, container), self._context.claims
        if claims is None:
            return devices
        try:
            names = claims.cdi_devices(pod, container)
        except ClaimError as error:
            raise ContainerError(str(error), reason=CONFIG_ERROR) from error
        return replace(devices, cdi_devices=tuple(dict.fromkeys((*names, *devices.cdi_devices)))) if names else devices

    def _stop_signal(self, container: Container) -> str:
        """Return the stop signal to request; empty for that of the image."""
        if container.lifecycle is None or not self._context.gates.enabled("ContainerStopSignals"):
            return ""
        return container.lifecycle.stop_signal or ""

    async def _check_stop_signal(self, container: Container, container_id: str) -> None:
        """Reject a container whose stop signal the runtime has ignored, as runtimes of earlier CRI versions do.

        :raises ContainerError: the runtime does not report the requested signal.
        """
        requested = self._stop_signal(container)
        if not requested:
            return
        effective = (await self._context.runtime.container_status(container_id)).stop_signal
        if effective != requested:
            text = f'lifecycle.stopSignal "{requested}" is not supported by the container runtime'
            raise ContainerError(text, reason="RunContainerError")

    async def _run(self, step: Step, start: Start, container_id: str, attempt: int, reference: ObjectReference) -> None:
        """Start a created container and run its postStart hook.

        :raises ContainerError: the start or the hook failed.
        """
        context, pod, container = self._context, step.pod, start.container
        step.touched.add(container_id)
        try:
            await self._check_stop_signal(container, container_id)
            await self._prepare_start(pod, container)
            async with self._slots.container():
                await context.runtime.start_container(container_id)
        except RuntimeUnavailable:
            raise
        except RuntimeFailure as error:
            # Uses the name, which is equal for all attempts, so that events are aggregated.
            text = str(error).replace(container_id, container.name)
            raise ContainerError(text, reason="RunContainerError") from error
        context.recorder.record(
            reference, EventType.NORMAL, "Started", started_text(container.name, context.release.release)
        )
        try:
            await asyncio.to_thread(link_log, step.paths, container.name, attempt, container_id)
        except OSError as error:
            fields = {"path": str(step.paths.legacy_link(container.name, container_id)), "containerID": container_id}
            log = str(step.paths.log(container.name, attempt))
            _log.error("Failed to create legacy symbolic link", extra={**fields, "containerLogPath": log, "err": error})
        await self._hook_caller.notify(
            "nodeagent_container_started", pod=pod, container=container, container_id=container_id
        )
        if container.lifecycle is not None and container.lifecycle.post_start is not None:
            await self._post_start(step, start, container_id, reference)

    async def _prepare_start(self, pod: Pod, container: Container) -> None:
        """Prepare the devices of the container.

        :raises ContainerError: they cannot be prepared.
        """
        try:
            await self._context.devices.before_start(pod, container)
        except DeviceError as error:
            raise ContainerError(str(error), reason=CONFIG_ERROR) from error

    async def _post_start(self, step: Step, start: Start, container_id: str, reference: ObjectReference) -> None:
        pod, container = step.pod, start.container
        assert container.lifecycle is not None and container.lifecycle.post_start is not None
        where = f'Container "{container.name}" in Pod "{pod.name}_{pod.namespace}({pod.uid})"'

        def fell_back() -> None:
            HTTP_FALLBACKS.inc()
            text = "PostStart hook was requested over HTTPS but the server responded in plain HTTP"
            self._context.recorder.record(reference, EventType.WARNING, "LifecycleHTTPFallback", text)

        try:
            await self._hooks.run(
                container.lifecycle.post_start,
                container_id,
                where,
                ports=container.ports or (),
                pod_ip=step.ips[0] if step.ips else "",
                on_fallback=fell_back,
            )
        except HookFailure as error:
            _log.error(
                "Failed to execute PostStartHook",
                extra={
                    "pod": pod.full_name,
                    "podUID": pod.uid,
                    "containerName": container.name,
                    "containerID": container_id,
                    "err": error,
                },
            )
            note = "PostStartHook failed"
            self._context.recorder.record(reference, EventType.WARNING, "FailedPostStartHook", note)
            stop = plan_stop(pod, _running(container_id, container), message="FailedPostStartHook")
            for problem in await self._stopper.stop_all(pod, [stop], step.memory.stops):
                step.fail(problem)
            raise ContainerError(str(error), reason="PostStartHookError") from error

    async def _supports_recursive_readonly(self, step: Step, container: Container) -> bool:
        if not any(mount.recursive_read_only for mount in container.volume_mounts or ()):
            return False
        return (await self._context.runtime_status()).handler(step.runtime_handler).recursive_read_only_mounts

    async def _environment(self, step: Step, container: Container, reference: ObjectReference) -> Environment:
        context, pod = self._context, step.pod
        volumes = {name: volume.host_path for name, volume in step.volumes.items() if not volume.device_path}
        facts = PodEnvironmentInputs(
            step.ips,
            host_ips(context),
            context.node_name,
            lambda: _allocatable(context),
            volumes,
            host_ips_field=context.gates.enabled("PodHostIPs"),
        )
        services = await self._services(pod)
        any_name = context.gates.enabled("RelaxedEnvironmentVariableValidation")
        environment = await make_environment(pod, container, facts, context.objects, services, any_name=any_name)
        for sentence in environment.skipped:
            context.recorder.record(reference, EventType.WARNING, "InvalidEnvironmentVariableNames", sentence)
        return environment

    async def _services(self, pod: Pod) -> Sequence[Mapping[str, Any]]:
        """Return the services whose variables *pod* gets; only pods from the API require the service cache.

        The API server may itself be a static pod, which must not wait for it.
        """
        if self._context.api is None:
            return ()
        objects = self._context.objects
        source = (pod.metadata.annotations or {}).get(identity.current().label("config.source"), "api")
        requires_services = source == "api"
        try:
            async with asyncio.timeout(None if requires_services else STATIC_POD_SERVICES_SECONDS):
                master = [
                    service
                    for service in await objects.services("default")
                    if service["metadata"]["name"] == "kubernetes" or pod.namespace == "default"
                ]
                if pod.spec.enable_service_links is False:
                    return [service for service in master if service["metadata"]["name"] == "kubernetes"]
                return master if pod.namespace == "default" else [*master, *await objects.services(pod.namespace)]
        except (ApiError, TimeoutError):
            if requires_services:
                raise
            return ()

    def _now(self) -> int:
        return int(self._context.clock.wall().timestamp() * 1e9)


def _runs(step: Step, container: Container) -> list[RuntimeContainerStatus]:
    """Return the runs of *container* as observed before this step, latest first."""
    return [run for run in step.observed.containers if run.name == container.name and not run.start_interrupted]


def host_ips(context: StatsContext) -> Sequence[str]:
    """Return the node's addresses, the primary one first."""
    addresses = ((context.node() or {}).get("status") or {}).get("addresses") or ()
    reported = [a["address"] for a in addresses if a.get("type") == "InternalIP"]
    return reported or [ip for ip in context.settings.node_ips if ip not in ("0.0.0.0", "::")]  # noqa: S104


def _allocatable(context: StatsContext) -> Mapping[str, Any]:
    found: Mapping[str, Any] = ((context.node() or {}).get("status") or {}).get("allocatable") or {}
    return found or host_resources()


def _target_id(step: Step, start: Start) -> str:
    """Return the container whose process namespace an ephemeral container joins.

    :raises ContainerError: the container is not running.
    """
    name = start.container.target_container_name
    if start.kind is not ContainerKind.EPHEMERAL or not name:
        return ""
    target = step.observed.newest(name)
    if target is None or target.state is not ContainerState.RUNNING:
        raise ContainerError(f"target container {name!r} is not running", reason=CONFIG_ERROR)
    return target.id


def _check_supported(container: Container, gates: FeatureGates) -> None:
    """Check the fields of an ephemeral container, which was not part of the pod at admission.

    :raises ContainerError: the agent does not implement a field.
    """
    path = f"{ContainerKind.EPHEMERAL.value}{{{container.name}}}"
    if uses := unsupported_in_container(container, path, gates):
        problem = f"container uses fields that this node does not support: {'; '.join(map(str, uses))}"
        raise ContainerError(problem, reason=CONFIG_ERROR)


def _running(container_id: str, container: Container) -> RuntimeContainerStatus:
    """Return a minimal status for stopping a container that was just started."""
    return RuntimeContainerStatus(
        id=container_id,
        name=container.name,
        attempt=0,
        state=ContainerState.RUNNING,
        created_at=0,
        started_at=0,
        finished_at=0,
        exit_code=0,
        image=container.image,
        image_ref="",
    )
