"""A node without an agent, whose runtime and API server a test changes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.base.simulation.clock import SimulatedClock
from nodeagent.base.simulation.latency import Latency
from nodeagent.contracts.stats import ContainerUsage, FilesystemStats, MemoryStats, NodeUsage, PodUsage
from nodeagent.simulation.apiserver import LEASES, NODES, PODS, Change
from nodeagent.simulation.convergence import Convergence
from nodeagent.simulation.disks import CAPACITY_BYTES, IMAGEFS, NODEFS
from nodeagent.simulation.invariants import Invariants
from nodeagent.simulation.node import MAX_PIDS
from nodeagent.simulation.pressure import MIB, EvictionObserver
from nodeagent.simulation.runtime_objects import Container, Sandbox
from nodeagent.simulation.transport import Network
from nodeagent.testing import FakeStats

START = "2040-01-01T00:00:00+00:00"
MIRROR = "kubernetes.io/config.mirror"


class Trace:
    def add(self, *entry: str) -> None:
        pass


@dataclass
class Loop:
    now: float = 0.0
    tasks: int = 10

    def time(self) -> float:
        return self.now

    def tasks_of(self, process: int) -> range:
        return range(self.tasks)


@dataclass
class Runtime:
    sandboxes: dict[str, Sandbox] = field(default_factory=dict)
    containers: dict[str, Container] = field(default_factory=dict)
    images: dict[str, Any] = field(default_factory=dict)
    observer: Any = None
    image_store: Any = None

    def running(self) -> list[Container]:
        return [container for container in self.containers.values() if container.running]


@dataclass
class Driver:
    """Volumes that are mounted, by UID of the pod, and those that are staged."""

    mounted: dict[str, list[str]] = field(default_factory=dict)
    staged: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    def pods(self) -> set[str]:
        return set(self.mounted)

    def mounted_for(self, uid: str) -> list[str]:
        return self.mounted.get(uid, [])

    def handles(self) -> list[str]:
        return self.staged


@dataclass
class Memory:
    """Memory of the node in bytes, and the usage of its pods as measured."""

    available: int = 4000 * MIB
    sample: dict[str, PodUsage] = field(default_factory=dict)


@dataclass
class Disks:
    """Available bytes of the disks by signal."""

    free: dict[str, int] = field(default_factory=lambda: {NODEFS: CAPACITY_BYTES, IMAGEFS: CAPACITY_BYTES})
    are_separate: bool = True
    released_at: float = -1000.0

    def available(self, signal: str) -> int:
        return self.free[signal]


class Host:
    """A node without an agent, whose runtime and API server the test changes."""

    def __init__(self, manifests: Path, *, has_pressure: bool = False) -> None:
        self.loop, self.runtime, self.trace = Loop(), Runtime(), Trace()
        self.server = SimpleNamespace(objects={PODS: {}}, watches=[], changed=None, find=self._find)
        self.clock = SimulatedClock(self.loop)
        self.network, self.driver = Network(self.loop, self.server, Latency(1, 0.02)), Driver()
        self.process, self.failure, self.manifests, self.is_latest = 1, None, manifests, True
        self.has_pressure, self.started_at, self.eviction_observer = has_pressure, 0.0, EvictionObserver()
        self._phases: dict[str, Any] = {}
        self.memory = self.usage = Memory()
        self.disks = Disks()
        self.host = SimpleNamespace(stats=FakeStats(NodeUsage(start_time=0, max_pids=MAX_PIDS, current_pids=0)))
        pods = SimpleNamespace(active=self._active, status=self._phases.get)
        self.agent = SimpleNamespace(context=SimpleNamespace(pods=pods))
        self.unruly = SimpleNamespace(raises=False, hangs=False)
        self.invariants = Invariants(self)
        self.report(ready="True")

    def _active(self) -> list[Any]:
        pods = self.server.objects[PODS].values()
        return [SimpleNamespace(uid=pod["metadata"]["uid"], containers=partial(_containers, pod)) for pod in pods]

    def finish(self, uid: str, phase: str) -> None:
        """Set the phase of a pod that has finished in the agent."""
        self._phases[uid] = SimpleNamespace(phase=phase)

    def measure(self, **used: int) -> None:
        """Set the measured usage of memory by pods in MiB."""
        for uid, amount in used.items():
            memory = MemoryStats(0, working_set_bytes=amount * MIB)
            self.usage.sample[uid] = PodUsage(uid, "default", uid, 0, memory=memory)

    def measure_files(self, **used: tuple[int, int]) -> None:
        """Set the measured usage of logs and writable layers by pods in MiB."""
        for uid, amounts in used.items():
            logs, layer = (FilesystemStats(0, used_bytes=amount * MIB) for amount in amounts)
            container = ContainerUsage("web", 0, logs=logs, rootfs=layer)
            self.usage.sample[uid] = PodUsage(uid, "default", uid, 0, [container])

    def leave(self, available: int) -> None:
        """Set the available memory in MiB."""
        self.memory.available = available * MIB
        self.invariants.observe_pressure()

    def leave_disk(self, signal: str, percent: float) -> None:
        """Set the available share of a disk."""
        self.disks.free[signal] = int(CAPACITY_BYTES * percent / 100)
        self.invariants.observe_pressure()

    def pull(self, *names: str) -> None:
        """Store images."""
        self.runtime.images |= dict.fromkeys(names)
        self.invariants.stored()

    def remove_image(self, name: str) -> None:
        """Request the removal of an image, as the agent does."""
        request = cri.RemoveImageRequest(image=cri.ImageSpec(image=name))
        self.invariants.requested("RemoveImage", request)

    def evict(self, uid: str, signal: str = "memory.available") -> None:
        self.eviction_observer.evicting(uid, signal)

    def difference(self) -> str:
        """Return the first difference from the desired state; empty if the node has converged."""
        return next(iter(Convergence(self).differences()), "")

    def report(self, *, ready: str, pressures: Mapping[str, str] | None = None, renewed: str = START) -> None:
        """Set the status and the lease of the node.

        :param pressures: status of the conditions of pressures that are not ``False``.
        """
        states = dict.fromkeys(("DiskPressure", "PIDPressure", "MemoryPressure"), "False") | dict(pressures or {})
        conditions = [{"type": name, "status": status} for name, status in (states | {"Ready": ready}).items()]
        before = self._find(NODES, "", "node-1")
        new = {"status": {"conditions": conditions}}
        self.server.objects[NODES] = {("", "node-1"): new}
        self.server.changed(Change(1, "MODIFIED", NODES, new, before))
        self.server.objects[LEASES] = {("kube-node-lease", "node-1"): {"spec": {"renewTime": renewed}}}

    def _find(self, collection: str, namespace: str, name: str) -> Any:
        return self.server.objects.get(collection, {}).get((namespace, name))

    @property
    def violation(self) -> str:
        return self.invariants.violation

    def sandbox(self, uid: str, name: str = "", *, ready: bool = True) -> Sandbox:
        config = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(uid=uid, name=name or uid))
        number = f"s{len(self.runtime.sandboxes)}"
        sandbox = self.runtime.sandboxes[number] = Sandbox(number, config, 0, "192.0.2.9", ready=ready)
        self.invariants.sandbox_started(sandbox)
        return sandbox

    def container(self, sandbox: Sandbox, name: str = "web", **config: Any) -> Container:
        metadata = cri.ContainerMetadata(name=name)
        number = f"c{len(self.runtime.containers)}"
        container = Container(number, sandbox, cri.ContainerConfig(metadata=metadata, **config), 0)
        self.runtime.containers[number] = container
        return container

    def start(self, container: Container) -> Container:
        container.state = cri.CONTAINER_RUNNING
        self.invariants.started(container)
        return container

    def end(self, container: Container, cause: str = "exit", code: int = 0) -> None:
        container.state, container.exit_code = cri.CONTAINER_EXITED, code
        self.invariants.ended(container, cause)

    def add(self, uid: str, **pod: Any) -> dict[str, Any]:
        """Create a pod; its UID is its name."""
        new = api_pod(uid, **pod)
        self.server.objects[PODS][("default", uid)] = new
        self._notify("ADDED", new, None)
        return new

    def change(self, uid: str, **pod: Any) -> None:
        before = self.server.objects[PODS][("default", uid)]
        new = self.server.objects[PODS][("default", uid)] = api_pod(uid, **pod)
        self._notify("MODIFIED", new, before)

    def delete(self, uid: str) -> None:
        before = self.server.objects[PODS].pop(("default", uid))
        self._notify("DELETED", before, before)

    def _notify(self, kind: str, obj: dict[str, Any], before: dict[str, Any] | None) -> None:
        self.server.changed(Change(1, kind, PODS, obj, before))

    def stop(self, container: Container, timeout: int = 0) -> None:
        request = cri.StopContainerRequest(container_id=container.id, timeout=timeout)
        self.invariants.requested("StopContainer", request)

    def request(self, name: str, *, uid: str = "", container: str = "") -> None:
        if name == "RunPodSandbox":
            config = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(uid=uid))
            self.invariants.requested(name, cri.RunPodSandboxRequest(config=config))
        else:
            self.invariants.requested(name, cri.StartContainerRequest(container_id=container))


def _containers(pod: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(each["name"], SimpleNamespace(image=each.get("image", ""))) for each in pod["spec"]["containers"]]


def api_pod(
    uid: str,
    *,
    policy: str = "Always",
    grace: int = 30,
    phase: str = "",
    restarts: int = 0,
    mirror_of: str = "",
    reported: tuple[str, ...] = (),
    ready: bool = False,
    **changes: Any,
) -> dict[str, Any]:
    statuses = [{"name": name, "restartCount": restarts, "state": {"running": {}}} for name in reported]
    if restarts and not statuses:
        statuses = [{"name": "web", "restartCount": restarts, "state": {"terminated": {"exitCode": 0}}}]
    status: dict[str, Any] = {"phase": phase, "containerStatuses": statuses}
    if ready:
        status["conditions"] = [{"type": "Ready", "status": "True"}]
    containers = [changes.pop("container", {"name": "web"})]
    containers += [changes.pop("other")] if "other" in changes else []
    annotations = {"annotations": {MIRROR: mirror_of}} if mirror_of else {}
    return {
        "metadata": {"name": uid, "namespace": "default", "uid": uid, **annotations, **changes.pop("metadata", {})},
        "spec": {
            "restartPolicy": policy,
            "terminationGracePeriodSeconds": grace,
            "containers": containers,
            **changes.pop("spec", {}),
        },
        "status": {**status, **changes.pop("status", {})},
    }
