"""Tests for the invariants of a simulated node: each violation is recorded, permitted behavior is not."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.base.simulation.clock import SimulatedClock
from nodeagent.simulation.apiserver import CONFIG_MAPS, LEASES, NODES, PODS, Change
from nodeagent.simulation.invariants import Invariants
from nodeagent.simulation.runtime import Container, Sandbox

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
    observer: Any = None

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


class Host:
    """A node without an agent, whose runtime and API server the test changes."""

    def __init__(self, manifests: Path) -> None:
        self.loop, self.runtime, self.trace = Loop(), Runtime(), Trace()
        self.server = SimpleNamespace(objects={PODS: {}}, watches=[], changed=None, find=self._find)
        self.clock = SimulatedClock(self.loop)
        self.network, self.driver = SimpleNamespace(receiver=None), Driver()
        self.process, self.failure, self.manifests, self.is_latest = 1, None, manifests, True
        self.invariants = Invariants(self)
        self.report(ready="True")

    def report(self, *, ready: str, pressure: str = "False", renewed: str = START) -> None:
        """Set the status and the lease of the node."""
        pressures = [{"type": f"{name}Pressure", "status": pressure} for name in ("Memory", "Disk", "PID")]
        conditions = [*pressures, {"type": "Ready", "status": ready}]
        self.server.objects[NODES] = {("", "node-1"): {"status": {"conditions": conditions}}}
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

    def stop(self, container: Container) -> None:
        self.invariants.requested("StopContainer", cri.StopContainerRequest(container_id=container.id))

    def request(self, name: str, *, uid: str = "", container: str = "") -> None:
        if name == "RunPodSandbox":
            config = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(uid=uid))
            self.invariants.requested(name, cri.RunPodSandboxRequest(config=config))
        else:
            self.invariants.requested(name, cri.StartContainerRequest(container_id=container))


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
        statuses = [{"name": "web", "restartCount": restarts, "state": {}}]
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


@pytest.fixture
def host(tmp_path):
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    return Host(manifests)


# --- starts


def test_pod_with_two_ready_sandboxes_is_a_violation(host):
    host.sandbox("a")
    host.sandbox("b")
    assert host.violation == ""

    host.sandbox("a")

    assert host.violation == "pod a has the sandboxes ['s0', 's2'] at the same time"


def test_new_sandbox_may_replace_one_that_is_not_ready(host):
    host.sandbox("a").ready = False

    host.sandbox("a")

    assert host.violation == ""


def test_container_that_runs_twice_is_a_violation(host):
    sandbox = host.sandbox("a")
    host.start(host.container(sandbox))
    host.start(host.container(sandbox, "other"))
    host.start(host.container(host.sandbox("b")))
    assert host.violation == ""

    host.start(host.container(sandbox))

    assert host.violation == "container web of pod a runs more than once: ['c0', 'c3']"


def test_device_with_two_holders_is_a_violation(host):
    def holding(uid, *devices):
        return host.container(host.sandbox(uid), envs=[cri.KeyValue(key="DEVICES", value=",".join(devices))])

    host.start(holding("a", "d0", "d1"))
    host.start(holding("b", "d2"))
    assert host.violation == ""

    host.start(holding("c", "d1"))

    assert host.violation == "device d1 is held by the pods ['a', 'c']"


def test_container_with_damaged_hosts_file_is_a_violation(host, tmp_path):
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")
    mounts = [cri.Mount(container_path="/etc/hosts", host_path=str(hosts))]
    host.start(host.container(host.sandbox("a"), mounts=mounts))
    assert host.violation == ""

    hosts.write_text("")
    host.start(host.container(host.sandbox("b"), mounts=mounts))

    assert host.violation == f"{hosts} is damaged at the start of web"


def test_volume_that_is_removed_while_its_container_runs_is_a_violation(host, tmp_path):
    volume = tmp_path / "volume"
    volume.mkdir()
    mounts = [cri.Mount(container_path="/data", host_path=str(volume))]
    container = host.start(host.container(host.sandbox("a"), mounts=mounts))
    host.invariants.verify_mounts()
    assert host.violation == ""

    volume.rmdir()
    host.invariants.verify_mounts()
    assert host.violation == "/data of container web of pod a is removed while the container runs"

    host.invariants.violation = ""
    host.end(container)
    host.invariants.verify_mounts()
    assert host.violation == ""


def configured(host, uid, directory, **files):
    """Return a running container whose volume has *files* of a config map."""
    directory.mkdir(exist_ok=True)
    for name, text in files.items():
        (directory / name).write_text(text)
    mounts = [cri.Mount(container_path="/config", host_path=str(directory))]
    return host.start(host.container(host.sandbox(uid), mounts=mounts))


@pytest.mark.parametrize("files", [{"one": "1", "other": "2"}, {"one": "1"}])
def test_volume_with_files_of_two_versions_is_a_violation(host, tmp_path, files):
    configured(host, "a", tmp_path / "complete", one="1", other="1")
    configured(host, "b", tmp_path / "empty")
    host.invariants.verify_mounts()
    assert host.violation == ""

    configured(host, "c", tmp_path / "torn", **files)
    host.invariants.verify_mounts()

    assert host.violation == f"/config of container web of pod c has files of two versions: {files}"


def test_call_of_the_volume_driver_in_the_wrong_order_is_a_violation(host):
    host.driver.violations.append("unstaged data-0 while mounted")

    host.invariants.verify_mounts()

    assert host.violation == "the volume driver was called in the wrong order: unstaged data-0 while mounted"


# --- restart policies


@pytest.mark.parametrize(
    ("policy", "code", "violation"),
    [
        ("Always", 0, ""),
        ("OnFailure", 1, ""),
        ("OnFailure", 0, "container web of pod a is restarted although it succeeded"),
        ("Never", 1, "container web of pod a is restarted although it must never be"),
    ],
)
def test_restart_contrary_to_the_policy_is_a_violation(host, policy, code, violation):
    host.add("a", policy=policy)
    sandbox = host.sandbox("a")

    host.end(host.start(host.container(sandbox)), code=code)
    host.start(host.container(sandbox))

    assert host.violation == violation


def test_restart_after_the_agent_stopped_the_container_is_permitted(host):
    host.add("a", policy="Never")
    container = host.start(host.container(host.sandbox("a")))
    container.signaled_at = 1.0

    host.end(container)
    host.start(host.container(container.sandbox))

    assert host.violation == ""


def test_init_containers_may_run_again(host):
    host.add("a", policy="Never")
    sandbox = host.sandbox("a")

    host.end(host.start(host.container(sandbox, "init-0")))
    host.start(host.container(sandbox, "init-0"))

    assert host.violation == ""


def test_restart_after_a_change_of_the_pod_is_permitted(host):
    host.add("a", policy="OnFailure")
    sandbox = host.sandbox("a")
    host.end(host.start(host.container(sandbox)))

    host.change("a", policy="OnFailure", container={"name": "web", "image": "new"})
    host.start(host.container(sandbox))

    assert host.violation == ""


# --- ends


def test_removal_of_a_running_container_is_a_violation(host):
    host.end(host.start(host.container(host.sandbox("a"))), "removed")

    assert host.violation == "container web of pod a is removed while it runs"


@pytest.mark.parametrize("cause", ["killed", "sandbox"])
def test_kill_before_the_end_of_the_grace_period_is_a_violation(host, cause):
    host.add("a", grace=30)
    container = host.start(host.container(host.sandbox("a")))
    host.loop.now, container.requested_at = 130.0, 101.0

    host.end(container, cause)

    expected = f"container web of pod a is killed ({cause}) 29.0 s after the stop request, its grace period is 30 s"
    assert host.violation == expected


def test_kill_without_a_stop_request_is_a_violation(host):
    host.loop.now = 1000.0

    host.end(host.start(host.container(host.sandbox("static"))), "killed")

    expected = "container web of pod static is killed (killed) 0.0 s after the stop request, its grace period is 5 s"
    assert host.violation == expected


def test_kill_at_the_end_of_the_grace_period_is_permitted(host):
    host.add("a", grace=30)
    container = host.start(host.container(host.sandbox("a")))
    host.loop.now, container.requested_at = 131.0, 101.0

    host.end(container, "killed")

    assert host.violation == ""


def test_deletion_with_a_shorter_grace_period_permits_an_earlier_kill(host):
    host.add("a", grace=30)
    host.change("a", grace=30, metadata={"deletionGracePeriodSeconds": 2})
    container = host.start(host.container(host.sandbox("a")))
    host.loop.now, container.requested_at = 104.0, 101.0

    host.end(container, "killed")

    assert host.violation == ""


def test_kill_of_a_pod_that_is_deleted_by_force_or_has_a_hook_is_permitted(host):
    host.add("a")
    host.invariants.forced.add("a")
    host.add("b", container={"name": "web", "lifecycle": {"preStop": {}}})

    for uid in "ab":
        host.end(host.start(host.container(host.sandbox(uid))), "killed")

    assert host.violation == ""


@pytest.mark.parametrize(
    ("now", "jump", "violation"),
    [
        (59.0, 0.0, ""),
        (58.9, 0.0, "the deadline of pod a is exceeded after 58.9 of 60 s"),
        (58.9, 3600.0, ""),
    ],
)
def test_early_end_because_of_the_deadline_is_a_violation(host, now, jump, violation):
    spec = {"activeDeadlineSeconds": 60}
    host.add("a", spec=spec)
    host.loop.now, host.clock.offset_seconds = now, jump

    host.change("a", spec=spec, phase="Failed", status={"reason": "DeadlineExceeded", "startTime": START})

    assert host.violation == violation


@pytest.mark.parametrize(
    ("now", "phase", "violation"), [(62.1, "Failed", ""), (62.0, "Running", ""), (62.1, "Running", "60 s")]
)
def test_pod_that_outlives_its_deadline_is_a_violation(host, now, phase, violation):
    host.add("a", spec={"activeDeadlineSeconds": 60}, phase=phase, status={"startTime": START})
    host.loop.now = now
    host.report(ready="True", renewed="2040-01-01T00:01:00+00:00")

    host.invariants.verify_converged(final=True)

    assert host.violation == (violation and "pod a runs longer than 60 s")


@pytest.mark.parametrize(
    ("broken", "ready", "violation"),
    [
        (False, True, ""),
        (False, False, "pod a is not ready after a time without faults"),
        (True, False, ""),
        (True, True, "pod a is ready after a time without faults"),
    ],
)
def test_readiness_differing_from_that_of_the_probes_is_a_violation(host, broken, ready, violation):
    web = {"name": "web", "readinessProbe": {}}
    host.add("a", container=web, phase="Running", reported=("web",), ready=ready)
    host.start(host.container(host.sandbox("a"))).broken = broken

    host.invariants.verify_converged(final=True)

    assert host.violation == violation


@pytest.mark.parametrize(
    ("now", "reported", "violation"),
    [
        (39.9, {"ready": "True"}, ""),
        (40.0, {"ready": "True"}, "the lease of the node was renewed 40 s ago"),
        (0.0, {"ready": "Unknown"}, "the node has the conditions"),
        (0.0, {"ready": "True", "pressure": "True"}, "the node has the conditions"),
    ],
)
def test_node_that_is_not_ready_or_has_an_old_lease_is_a_violation(host, now, reported, violation):
    host.report(**reported)
    host.loop.now = now

    host.invariants.verify_converged(final=True)

    assert host.violation.startswith(violation)
    assert bool(host.violation) == bool(violation)


@pytest.mark.parametrize(("quota", "permitted"), [(100_000, True), (100_100, False)])
def test_limits_above_the_cpus_of_the_node_are_a_violation(host, quota, permitted):
    for uid, limit in (("a", 100_000), ("b", quota), ("c", 100_000)):
        host.add(uid)
        resources = cri.LinuxContainerResources(cpu_period=100_000, cpu_quota=limit)
        linux = cri.LinuxContainerConfig(resources=resources)
        host.start(host.container(host.sandbox(uid), linux=linux))
    host.invariants.forced.add("c")

    host.invariants.verify_limits()

    assert (host.violation == "") == permitted


def test_stop_of_a_sidecar_before_the_container_is_a_violation(host):
    host.add("a", spec={"initContainers": [{"name": "sidecar", "restartPolicy": "Always"}]}, container={"name": "main"})
    sandbox = host.sandbox("a")
    sidecar, main = (host.start(host.container(sandbox, name)) for name in ("sidecar", "main"))

    host.stop(sidecar)
    first, host.invariants.violation = host.violation, ""
    host.invariants.forced.add("a")
    host.stop(sidecar)

    assert first == "sidecar of pod a is stopped before main"
    assert host.violation == "", "sidecars of a pod deleted by force are unknown"
    assert main.running


RULES = [{"action": "Restart"}], [{"action": "RestartAllContainers"}]


@pytest.mark.parametrize(
    ("rules", "code", "violation"),
    [
        (RULES[0], 42, ""),
        (RULES[0], 0, "container web of pod a is restarted although no rule applies"),
        (RULES[1], 42, ""),
        (RULES[1], 1, "container web of pod a is restarted although no rule applies"),
    ],
)
def test_restart_without_an_applicable_rule_is_a_violation(host, rules, code, violation):
    host.add("a", container={"name": "web", "restartPolicyRules": rules})
    sandbox = host.sandbox("a")

    host.end(host.start(host.container(sandbox)), code=code)
    host.start(host.container(sandbox))

    assert host.violation == violation


def test_rule_permits_one_restart_of_each_container_within_seconds(host):
    host.add("a", policy="Never", container={"name": "web", "restartPolicyRules": RULES[1]}, other={"name": "db"})
    sandbox = host.sandbox("a")
    other = host.start(host.container(sandbox, "db"))
    host.end(host.start(host.container(sandbox)), code=42)
    other.requested_at = host.loop.now
    host.loop.now += 2.0

    host.end(other, "killed", 137)
    host.start(host.container(sandbox, "db"))
    assert host.violation == ""
    host.end(host.start(host.container(sandbox)), code=0)
    host.start(host.container(sandbox))

    assert host.violation == "container web of pod a is restarted although no rule applies"


@pytest.mark.parametrize(("rules", "permitted"), [(RULES[0], False), (RULES[1], True)])
def test_changed_container_of_a_pod_with_a_rule_may_be_restarted_alone(host, rules, permitted):
    spec = {"initContainers": [{"name": "init"}]}
    container = {"name": "web", "restartPolicyRules": rules}
    host.add("a", spec=spec, container=container)
    host.change("a", spec=spec, container={**container, "image": "new"})

    host.start(host.container(host.sandbox("a")))

    assert (host.violation == "") == permitted


@pytest.mark.parametrize(("requested_at", "permitted"), [(98.9, False), (99.0, True), (150.0, True), (150.1, False)])
def test_kill_of_an_evicted_pod_is_permitted_after_a_second(host, requested_at, permitted):
    host.add("a", grace=30)
    host.invariants.pressures.append((100.0, 120.0))
    container = host.start(host.container(host.sandbox("a")))
    container.requested_at, host.loop.now = requested_at, requested_at + 1.0

    host.end(container, "killed")

    assert (host.violation == "") == permitted


@pytest.mark.parametrize(("requested_at", "permitted"), [(150.0, True), (240.0, True), (240.1, False), (400.0, False)])
def test_evicted_pod_is_stopped_later_because_of_successive_faults(host, requested_at, permitted):
    host.add("a", grace=30)
    host.invariants.pressures.append((100.0, 120.0))
    host.invariants.delays += [(90.0, 180.0), (200.0, 210.0), (205.0, 206.0), (300.0, 500.0)]
    container = host.start(host.container(host.sandbox("a")))
    container.requested_at, host.loop.now = requested_at, requested_at + 1.0

    host.end(container, "killed")

    assert (host.violation == "") == permitted


def test_end_of_a_container_that_starts_in_the_stop_of_a_sandbox(host):
    host.add("a")
    container = host.start(host.container(host.sandbox("a")))
    container.outlasted = True

    host.end(container, "sandbox")

    assert host.violation == ""


def test_end_of_a_sandbox_whose_stop_outlived_the_agent_is_permitted(host):
    host.add("a")
    container = host.start(host.container(host.sandbox("a")))
    container.sandbox.stop_outlived_client = True

    host.end(container, "sandbox")

    assert host.violation == ""


@pytest.mark.parametrize("cause", ["exit", "stopped", "power"])
def test_container_may_exit_at_any_time(host, cause):
    host.add("a")

    host.end(host.start(host.container(host.sandbox("a"))), cause)

    assert host.violation == ""


# --- information of the agent


@pytest.mark.parametrize("informed", ["watch", "list"])
def test_start_for_a_pod_that_the_agent_knows_to_be_deleted_is_a_violation(host, informed):
    host.add("a")
    container = host.container(host.sandbox("a"))
    if informed == "watch":
        host.invariants.delivered("DELETED", api_pod("a"))
    else:
        host.invariants.listed(host.invariants.listing(set()))
    host.loop.now = 2.0
    host.request("RunPodSandbox", uid="a")
    host.request("StartContainer", container=container.id)
    assert host.violation == "", "the agent has two seconds to act on it"

    host.loop.now = 2.1
    host.request("RunPodSandbox", uid="a")
    assert host.violation == "a sandbox of pod a is started although the agent was informed of its deletion"

    host.invariants.violation = ""
    host.request("StartContainer", container=container.id)
    assert host.violation == "container web of pod a is started although the agent was informed of its deletion"


def test_start_for_other_pods_is_permitted(host):
    host.add("a")
    host.add("b")
    host.invariants.delivered("MODIFIED", api_pod("b"))
    host.invariants.listed(host.invariants.listing({"b"}))
    host.loop.now = 100.0

    host.request("RunPodSandbox", uid="b")
    host.request("StartContainer", container="unknown")

    assert host.violation == ""


def test_start_for_a_finished_pod_is_a_violation(host):
    host.add("a", phase="Succeeded")

    host.request("RunPodSandbox", uid="a")

    assert host.violation == "a sandbox of pod a is started after the pod had finished"


# --- objects


def test_deletion_of_a_pod_whose_containers_run_is_a_violation(host):
    host.add("a")
    host.start(host.container(host.sandbox("a")))

    host.delete("a")

    assert host.violation == "pod a is deleted while its containers ['c0'] run"


def test_deletion_by_force_or_after_the_containers_ended_is_permitted(host):
    host.add("a")
    host.add("b")
    host.invariants.forced.add("a")
    host.start(host.container(host.sandbox("a")))
    host.end(host.start(host.container(host.sandbox("b"))))

    host.delete("a")
    host.delete("b")

    assert host.violation == ""


def test_end_of_a_mirror_pod_is_permitted_while_the_static_pod_runs(host):
    host.add("mirror", mirror_of="hash")
    host.start(host.container(host.sandbox("hash")))

    host.delete("mirror")

    assert host.violation == ""


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_change_of_a_final_phase_is_a_violation(host, phase):
    host.add("a", phase="Running")
    host.change("a", phase=phase)
    host.change("a", phase=phase)
    assert host.violation == ""

    host.change("a", phase="Running")

    assert host.violation == f"pod a changes from phase {phase} to Running"


def test_decreasing_restart_count_is_a_violation(host):
    host.add("a", restarts=1)
    host.change("a", restarts=3)
    host.change("a", restarts=3)
    assert host.violation == ""

    host.change("a", restarts=2)

    assert host.violation == "restart count of ('a', 'web') decreases from 3 to 2"


def test_first_violation_is_recorded(host):
    host.invariants.violate("first")
    host.invariants.violate("second")

    assert host.violation == "first"


# --- convergence


def running_pod(host, uid="a", **pod):
    container = {"container": {"name": "web"}} | pod
    host.add(uid, **{"phase": "Running", "reported": ("web",), "ready": True} | container)
    host.start(host.container(host.sandbox(uid)))


def static_pod(host, name="s", **mirror):
    (host.manifests / f"{name}.yaml").touch()
    host.server.objects[PODS][("default", f"{name}-node-1")] = api_pod(f"{name}-mirror", mirror_of="hash", **mirror)


def test_node_whose_pods_run_and_are_ready_has_converged(host):
    running_pod(host)
    running_pod(host, "b", policy="OnFailure", ready=False)
    host.add("c", phase="Succeeded", policy="Never")
    static_pod(host)
    host.start(host.container(host.sandbox("hash", "s-node-1")))

    assert host.invariants.verify_converged(final=True), host.violation


def assert_differs(host, text):
    """Assert that the node has not converged because of *text*, which is a violation only at the final time."""
    assert not host.invariants.verify_converged(final=False)
    assert host.violation == ""
    assert not host.invariants.verify_converged(final=True)
    assert host.violation == text


def test_agent_that_does_not_run_differs(host):
    host.process, host.failure = 0, ValueError("x")

    assert_differs(host, "the agent is not running: ValueError('x')")


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        ({"phase": "Pending"}, "pod a has the phase Pending after a time without faults"),
        ({"ready": False}, "pod a is not ready after a time without faults"),
        (
            {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
            "pod a is not ready after a time without faults",
        ),
        ({"reported": ()}, "1 containers of pod a run, but its status reports []"),
        (
            {"metadata": {"deletionTimestamp": "t"}},
            "pod a is not deleted, although this was requested at t",
        ),
        ({"phase": "Failed"}, "pod a has the phase Failed, but 1 containers run"),
    ],
)
def test_status_that_does_not_match_the_containers_differs(host, pod, text):
    running_pod(host, **pod)

    assert_differs(host, text)


def test_pod_whose_containers_do_not_exit_on_their_own_has_to_run(host):
    host.add("a", phase="Succeeded", policy="Never")
    host.add("b", phase="Pending", container={"name": "web", "args": ["exit"]})
    assert host.invariants.verify_converged(final=True)

    host.add("c", phase="Pending")

    assert_differs(host, "pod c has the phase Pending after a time without faults")


def test_volume_that_does_not_match_its_config_map_differs(host, tmp_path):
    config = {"volumes": [{"name": "data"}, {"name": "config", "configMap": {"name": "m"}}]}
    running_pod(host, spec=config)
    (container,) = host.runtime.running()
    container.config.mounts.append(cri.Mount(container_path="/config", host_path=str(tmp_path)))
    assert host.invariants.verify_converged(final=True), "neither the config map nor a file exists"

    host.server.objects[CONFIG_MAPS] = {("default", "m"): {"data": {"one": "2", "other": "2"}}}
    assert_differs(host, "/config of container web of pod a contains {} instead of {'one': '2', 'other': '2'}")

    host.invariants.violation = ""
    for name in ("one", "other"):
        (tmp_path / name).write_text("2")
    assert host.invariants.verify_converged(final=True)


CLAIM = {"volumes": [{"name": "data"}, {"name": "claim", "persistentVolumeClaim": {"claimName": "data-0"}}]}


def test_claims_of_running_pods_are_mounted(host):
    running_pod(host, spec=CLAIM)
    running_pod(host, "b")
    host.driver.staged, host.driver.mounted = ["data-0"], {"a": ["data-0"]}
    assert host.invariants.verify_converged(final=True), host.violation

    host.driver.mounted = {}
    assert_differs(host, "pod a has the claims ['data-0'], but [] are mounted")

    host.invariants.violation, host.driver.mounted = "", {"a": ["data-0"], "b": ["data-1"]}
    assert_differs(host, "pod b has the claims [], but ['data-1'] are mounted")


def test_claims_of_deleted_pods_are_not_mounted(host):
    host.add("done", phase="Succeeded", policy="Never", spec=CLAIM)
    host.driver.staged, host.driver.mounted = ["data-0"], {"done": ["data-0"]}
    assert host.invariants.verify_converged(final=True), host.violation

    host.driver.mounted = {"gone": ["data-0"]}
    assert_differs(host, "volumes of pod gone remain mounted after its deletion")

    host.invariants.violation, host.driver.mounted = "", {}
    assert_differs(host, "the volumes ['data-0'] are staged, but [] are used")


def limited(milli):
    return {"name": "web", "resources": {"limits": {"cpu": milli}}}


@pytest.mark.parametrize(
    ("desired", "reported", "actual", "pending", "text"),
    [
        ("200m", "200m", 200, False, ""),
        ("2", "2", 2000, False, ""),
        ("200m", "100m", 200, False, "has the CPU limit 200m, but its status reports 100m"),
        ("200m", "100m", 100, False, "has the CPU limit 100m instead of 200m"),
        ("200m", "100m", 100, True, ""),
    ],
)
def test_resized_container_has_the_desired_limit_unless_it_is_pending(host, desired, reported, actual, pending, text):
    running_pod(host, container=limited(desired), reported=())
    (container,) = host.runtime.running()
    container.config.linux.resources.cpu_period, container.config.linux.resources.cpu_quota = 1000, actual
    status = host.server.find(PODS, "default", "a")["status"]
    status["containerStatuses"] = [{**limited(reported), "state": {"running": {}}}]
    if pending:
        status["conditions"].append({"type": "PodResizePending", "status": "True"})

    if text:
        assert_differs(host, f"container web of pod a {text}")
    else:
        assert host.invariants.verify_converged(final=True), host.violation


def test_limits_are_not_compared_in_a_release_without_resizes(host):
    host.is_latest = False
    running_pod(host, container=limited("200m"))

    assert host.invariants.verify_converged(final=True)


def test_sandbox_of_a_deleted_pod_differs(host):
    host.sandbox("gone")

    assert_differs(host, "sandbox s0 of pod gone remains after the deletion of the pod")


def test_static_pod_that_does_not_run_differs(host):
    static_pod(host)

    assert_differs(host, "static pod s does not run")


@pytest.mark.parametrize("reason", ["UnexpectedAdmissionError", "Evicted"])
def test_static_pod_that_was_rejected_or_evicted_need_not_run(host, reason):
    static_pod(host, status={"reason": reason})

    assert host.invariants.verify_converged(final=True)


@pytest.mark.parametrize("manifest", [False, True])
def test_mirror_pods_that_do_not_match_the_static_pods_differ(host, manifest):
    if manifest:
        (host.manifests / "s.yaml").touch()
        host.start(host.container(host.sandbox("hash", "s-node-1")))
        assert_differs(host, "mirror pods [] do not match the static pods ['s']")
    else:
        static_pod(host)
        (host.manifests / "s.yaml").unlink()
        assert_differs(host, "mirror pods ['s'] do not match the static pods []")


def test_numbers_of_tasks_and_watches_are_limited(host):
    running_pod(host)
    host.loop.tasks, host.server.watches = 75, [None] * 10
    assert host.invariants.verify_converged(final=True)

    host.loop.tasks = 76
    assert_differs(host, "the agent has 76 tasks with 1 pods")

    host.invariants.violation = ""
    host.loop.tasks, host.server.watches = 75, [None] * 11
    assert_differs(host, "the agent has 11 watches")


# --- records


def test_records_of_deleted_pods_are_forgotten_except_for_the_latest(host):
    for uid in ("a", "b", "c"):
        host.add(uid, policy="Never", restarts=2, phase="Succeeded")
        host.end(host.start(host.container(host.sandbox(uid))))
    host.runtime.sandboxes.clear()
    host.delete("a")
    host.delete("b")

    host.invariants.forget(1)

    assert host.invariants.listing(set()) == {"b", "c"}
    host.request("RunPodSandbox", uid="a")
    assert host.violation == "", "nothing is known about the pod"
    host.request("RunPodSandbox", uid="b")
    assert host.violation == "a sandbox of pod b is started after the pod had finished"
