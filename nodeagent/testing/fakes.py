"""Fakes of other components: pod directory, objects, cgroups, volumes, image puller, prober, stats, pod source."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from nodeagent.base.aio import Clock
from nodeagent.contracts.cgroups import PodLimit
from nodeagent.contracts.images import PulledImage
from nodeagent.contracts.objects import BoundToken
from nodeagent.contracts.pods import KillReason, PublishPods, SyncOutcome
from nodeagent.contracts.probes import ProbeKind, ProbeResult
from nodeagent.contracts.runtime import LinuxResources, RuntimePod, SandboxConfig
from nodeagent.contracts.stats import ContainerUsage, NodeUsage, PodUsage
from nodeagent.contracts.volumes import MountedVolume
from nodeagent.errors import ImageError, RuntimeFailure
from nodeagent.model.pod import Container, ContainerKind, ImageVolume, Pod, PodStatus, ResourceRequirements, Volume
from nodeagent.testing.clock import FakeClock
from nodeagent.testing.faults import Faults
from nodeagent.testing.images import FakeImages
from nodeagent.testing.pods import make_pod


@dataclass(frozen=True, slots=True)
class Kill:
    """One call of :meth:`FakePodDirectory.kill`."""

    uid: str
    reason: KillReason
    message: str
    status_reason: str = ""
    grace_seconds: int | None = None


class FakePodDirectory:
    """A :class:`~nodeagent.contracts.pods.PodDirectory` with the pods that a test adds."""

    def __init__(self, *pods: Pod) -> None:
        self.pods: dict[str, Pod] = {pod.uid: pod for pod in pods}
        self.statuses: dict[str, PodStatus] = {}
        self.reported: dict[str, PodStatus | None] = {}
        """Statuses in the API by UID, where they are not part of the pod: those of mirror pods."""
        self.runtime_pods: dict[str, RuntimePod] = {}
        self.ended: set[str] = set()
        self.triggered: list[str] = []
        self.kills: list[Kill] = []
        self.all_sources_ready = True

    def add(self, pod: Pod, status: PodStatus | None = None, observed: RuntimePod | None = None) -> Pod:
        """Add or replace a pod, with its status and its observed state."""
        self.pods[pod.uid] = pod
        if status is not None:
            self.statuses[pod.uid] = status
        if observed is not None:
            self.runtime_pods[pod.uid] = observed
        return pod

    def all(self) -> Sequence[Pod]:
        return list(self.pods.values())

    def active(self) -> Sequence[Pod]:
        return [pod for pod in self.pods.values() if pod.uid not in self.ended]

    def get(self, uid: str) -> Pod | None:
        return self.pods.get(uid)

    def status(self, uid: str) -> PodStatus | None:
        return self.statuses.get(uid)

    def reported_status(self, uid: str) -> PodStatus | None:
        pod = self.pods.get(uid)
        return None if pod is None else self.reported.get(uid, pod.status)

    def observed(self, uid: str) -> RuntimePod | None:
        return self.runtime_pods.get(uid)

    def trigger_sync(self, uid: str) -> None:
        self.triggered.append(uid)

    def kill(
        self, uid: str, reason: KillReason, message: str, *, status_reason: str = "", grace_seconds: int | None = None
    ) -> None:
        self.kills.append(Kill(uid, reason, message, status_reason, grace_seconds))


class FakeAllocations(Faults):
    """A :class:`~nodeagent.contracts.allocation.PodAllocations` in memory."""

    def __init__(self, *, resizing: bool = False) -> None:
        super().__init__()
        self.resizing = resizing
        self.resources: dict[tuple[str, str], ResourceRequirements] = {}
        """Actuated resources by pod UID and container name."""
        self.pod_resources: dict[str, ResourceRequirements | None] = {}
        """Actuated resources of pods themselves, by UID."""

    def actuated(self, pod_uid: str, container: str) -> ResourceRequirements | None:
        return self.resources.get((pod_uid, container))

    def pod_actuated(self, pod_uid: str) -> ResourceRequirements | None:
        return self.pod_resources.get(pod_uid)

    async def record_pod_actuated(self, pod_uid: str, resources: ResourceRequirements | None) -> None:
        await self._pass("record_pod_actuated")
        self.pod_resources[pod_uid] = resources

    async def record_actuated(self, pod_uid: str, container: str, resources: ResourceRequirements) -> None:
        await self._pass("record_actuated")
        self.resources[pod_uid, container] = resources


class FakeObjects(Faults):
    """An :class:`~nodeagent.contracts.objects.ObjectReader` with the objects that a test sets, by (namespace, name)."""

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__()
        self.config_maps: dict[tuple[str, str], dict[str, Any]] = {}
        self.secrets: dict[tuple[str, str], dict[str, Any]] = {}
        self.service_list: list[dict[str, Any]] = []
        self.registered: set[str] = set()
        self.tokens: list[tuple[str, str, int]] = []
        self._clock: Clock = clock or FakeClock()

    def register_pod(self, pod: Pod) -> None:
        self.registered.add(pod.uid)

    def unregister_pod(self, pod_uid: str) -> None:
        self.registered.discard(pod_uid)

    async def config_map(self, namespace: str, name: str) -> dict[str, Any] | None:
        await self._pass("config_map")
        return self.config_maps.get((namespace, name))

    async def secret(self, namespace: str, name: str) -> dict[str, Any] | None:
        await self._pass("secret")
        return self.secrets.get((namespace, name))

    async def services(self, namespace: str) -> Sequence[dict[str, Any]]:
        await self._pass("services")
        return [s for s in self.service_list if s.get("metadata", {}).get("namespace") == namespace]

    async def service_account_token(
        self, pod: Pod, *, audience: str = "", expiration_seconds: int = 3600
    ) -> BoundToken:
        await self._pass("service_account_token")
        self.tokens.append((pod.uid, audience, expiration_seconds))
        expires_at = self._clock.wall() + timedelta(seconds=expiration_seconds)
        return BoundToken(f"token-{len(self.tokens)}-{audience or 'api'}", expires_at)


class FakeCgroups(Faults):
    """A :class:`~nodeagent.contracts.cgroups.CgroupManager` in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.created: dict[str, Pod] = {}
        self.removed: list[str] = []
        self.killed: list[tuple[str, str]] = []
        self.missing: set[str] = set()
        """UIDs of pods whose containers run in other cgroups."""
        self.limited: list[tuple[str, PodLimit]] = []
        """Calls of :meth:`limit_pod`."""
        self.exclusive: Callable[[str, str], bool] | None = None
        """The argument of :meth:`exempt_from_quota`."""
        self.parent = "/pods/{uid}"
        self.driver = "cgroupfs"
        self.resources: Callable[[Pod, Container | None], LinuxResources] = lambda _pod, _container: LinuxResources()

    async def start(self) -> None:
        await self._pass("start")

    def parent_of(self, pod: Pod) -> str:
        return self.parent.format(uid=pod.uid)

    async def exists(self, pod: Pod) -> bool:
        await self._pass("exists")
        return pod.uid not in self.missing

    async def ensure_pod(self, pod: Pod) -> None:
        await self._pass("ensure_pod")
        self.created[pod.uid] = pod
        self.missing.discard(pod.uid)

    async def limit_pod(self, pod: Pod, limit: PodLimit) -> None:
        await self._pass("limit_pod")
        self.limited.append((pod.uid, limit))

    async def remove_pod(self, pod_uid: str) -> None:
        await self._pass("remove_pod")
        self.created.pop(pod_uid, None)
        self.removed.append(pod_uid)

    async def kill_container(self, pod_uid: str, container_id: str) -> None:
        await self._pass("kill_container")
        self.killed.append((pod_uid, container_id))

    async def pods(self) -> Sequence[str]:
        await self._pass("pods")
        return list(self.created)

    def exempt_from_quota(self, exclusive: Callable[[str, str], bool]) -> None:
        self.exclusive = exclusive

    def container_resources(self, pod: Pod, container: Container) -> LinuxResources:
        return self.resources(pod, container)

    def pod_resources(self, pod: Pod) -> LinuxResources:
        return self.resources(pod, None)


class FakeVolumes(Faults):
    """A :class:`~nodeagent.contracts.volumes.VolumeManager` that returns paths without creating them."""

    def __init__(self, root: Path = Path("/volumes")) -> None:
        super().__init__()
        self.prepared: dict[str, Pod] = {}
        self.released: list[str] = []
        self._root = root

    async def prepare(self, pod: Pod) -> Mapping[str, MountedVolume]:
        await self._pass("prepare")
        self.prepared[pod.uid] = pod
        return {v.name: MountedVolume(v.name, str(self._root / pod.uid / v.name)) for v in pod.spec.volumes or ()}

    async def release(self, pod_uid: str) -> None:
        await self._pass("release")
        self.prepared.pop(pod_uid, None)
        self.released.append(pod_uid)

    def pods_with_volumes(self) -> Sequence[str]:
        return list(self.prepared)


class FakePuller(Faults):
    """An :class:`~nodeagent.contracts.images.ImagePuller` that pulls missing images, unless the policy is ``Never``."""

    def __init__(self, images: FakeImages | None = None) -> None:
        super().__init__()
        self.images = images or FakeImages()
        self.requests: list[tuple[str, str]] = []
        """Pod UID and container name of each call."""

    async def ensure(
        self, pod: Pod, kind: ContainerKind, container: Container, sandbox: SandboxConfig | None = None
    ) -> PulledImage:
        self.requests.append((pod.uid, container.name))
        await self._pass("ensure")
        return await self._pull(container.image, container.image_pull_policy, sandbox)

    async def ensure_volume_image(
        self, pod: Pod, volume: ImageVolume, sandbox: SandboxConfig | None = None
    ) -> PulledImage:
        self.requests.append((pod.uid, volume.reference))
        await self._pass("ensure_volume_image")
        return await self._pull(volume.reference, volume.pull_policy, sandbox)

    async def _pull(self, name: str, policy: str, sandbox: SandboxConfig | None) -> PulledImage:
        image = self.images.find(name)
        if image is None:
            if policy == "Never":
                text = f"image {name} is not present with pull policy of Never"
                raise ImageError(text, reason="ErrImageNeverPull")
            try:
                await self.images.pull_image(name, None, sandbox)
            except RuntimeFailure as error:
                raise ImageError(str(error)) from error
            image = self.images.find(name)
        if image is None:
            raise ImageError(f"image {name} is missing after its pull")
        return PulledImage(image.id, image)


class FakeProber:
    """A :class:`~nodeagent.contracts.probes.Prober` with the results that a test sets."""

    def __init__(self) -> None:
        self.results: dict[tuple[str, ProbeKind], ProbeResult] = {}
        self.pods: dict[str, Pod] = {}
        self.liveness_ended: set[str] = set()

    def add_pod(self, pod: Pod, observed: RuntimePod) -> None:
        self.pods[pod.uid] = pod

    def end_liveness(self, pod_uid: str) -> None:
        self.liveness_ended.add(pod_uid)

    def remove_pod(self, pod_uid: str) -> None:
        self.pods.pop(pod_uid, None)

    def result(self, container_id: str, kind: ProbeKind) -> ProbeResult | None:
        return self.results.get((container_id, kind))


class FakeStats(Faults):
    """A :class:`~nodeagent.contracts.stats.StatsProvider` with the usage that a test sets."""

    def __init__(self, node: NodeUsage | None = None, pods: Sequence[PodUsage] = ()) -> None:
        super().__init__()
        self.node_usage = node or NodeUsage(start_time=0)
        self.pod_usage: dict[str, PodUsage] = {pod.uid: pod for pod in pods}
        self.calls: list[tuple[str, bool]] = []
        """Method of each call, and whether a fresh sample was requested."""

    def set(self, *pods: PodUsage) -> None:
        """Replace the usage of all pods."""
        self.pod_usage = {pod.uid: pod for pod in pods}

    async def node(self, *, fresh: bool = False) -> NodeUsage:
        self.calls.append(("node", fresh))
        await self._pass("node")
        return self.node_usage

    async def pods(self, *, fresh: bool = False, volumes: bool = True) -> Sequence[PodUsage]:
        self.calls.append(("pods", fresh))
        await self._pass("pods")
        usage = self.pod_usage.values()
        return list(usage) if volumes else [replace(pod, volumes=()) for pod in usage]

    async def memory(self) -> Sequence[PodUsage]:
        self.calls.append(("memory", True))
        await self._pass("memory")
        return [
            PodUsage(
                pod.uid,
                pod.namespace,
                pod.name,
                pod.start_time,
                [ContainerUsage(each.name, each.start_time, memory=each.memory) for each in pod.containers],
                memory=pod.memory,
            )
            for pod in self.pod_usage.values()
        ]

    async def measure_volumes(self) -> None:
        self.calls.append(("measure_volumes", True))
        await self._pass("measure_volumes")


class FakeSyncer:
    """Pod syncer that does nothing.

    :ivar calls: the name of each call with the UID of its pod.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    async def sync_pod(self, pod: Pod, status: PodStatus, observed: RuntimePod) -> SyncOutcome:
        self.calls.append(("sync_pod", pod.uid))
        return SyncOutcome()

    async def sync_terminating(self, pod: Pod, observed: RuntimePod, grace_seconds: int | None) -> SyncOutcome:
        self.calls.append(("sync_terminating", pod.uid))
        return SyncOutcome()

    async def sync_stopped(self, pod: Pod) -> None:
        self.calls.append(("sync_stopped", pod.uid))

    async def sync_terminated(self, pod: Pod, observed: RuntimePod) -> None:
        self.calls.append(("sync_terminated", pod.uid))

    async def remove_pod(self, pod: Pod, observed: RuntimePod) -> None:
        self.calls.append(("remove_pod", pod.uid))

    async def remove_orphans(self, is_known: Callable[[str], bool]) -> None:
        self.calls.append(("remove_orphans", ""))


class FakePodSource:
    """A :class:`~nodeagent.contracts.pods.PodSource` that publishes the pods that a test sets."""

    def __init__(self, name: str = "fake") -> None:
        self.name = name
        self._pods: list[Pod] = []
        self._changed = asyncio.Event()

    def set(self, *pods: Pod | str) -> None:
        """Publish these pods; a name stands for a pod with default fields."""
        self._pods = [make_pod(pod, node_name="node-1") if isinstance(pod, str) else pod for pod in pods]
        self._changed.set()

    async def run(self, publish: PublishPods) -> None:
        while True:
            self._changed.clear()
            publish(list(self._pods))
            await self._changed.wait()


class FakeVolumeKind(Faults):
    """A :class:`~nodeagent.contracts.volumes.VolumeKind` for ``emptyDir`` that creates a plain directory."""

    name = "test~fake"

    async def setup(self, pod: Pod, volume: Volume, directory: Path) -> MountedVolume:
        await self._pass("setup")
        await asyncio.to_thread(directory.mkdir, exist_ok=True)
        return MountedVolume(volume.name, str(directory))

    async def teardown(self, pod_uid: str, directory: Path) -> None:
        await self._pass("teardown")
        await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)

    def supports(self, volume: Volume) -> bool:
        return volume.empty_dir is not None
