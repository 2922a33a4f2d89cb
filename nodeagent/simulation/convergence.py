"""Convergence of a node: after a time without faults, API server, runtime and volumes have the desired state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nodeagent.simulation.amounts import cpu_limit, quota
from nodeagent.simulation.api_objects import FINISHED, container_statuses, read_time, static_uid
from nodeagent.simulation.apiserver import CONFIG_MAPS, LEASES, NODES, PODS
from nodeagent.simulation.config_volumes import MOUNT_PATH, read_files
from nodeagent.simulation.node import NODE, Node
from nodeagent.simulation.runtime_objects import Container

_INFORMED_SECONDS = 2.0
"""Time after which the agent must act on information that it has received."""
_NODE_CONDITIONS = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
_LEASE_SECONDS = 40
_REJECTED = ("UnexpectedAdmissionError", "Evicted", "NodeShutdown", "Terminated")
"""Reasons of a pod whose admission ended with an error of a plugin, or that was rejected or ended because of a pressure
or of a shutdown that was cancelled."""


class Convergence:
    """Comparison of a node with its desired state.

    :ivar checked: number of conditions that were verified.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._differences: list[str] = []
        self.checked = 0

    def differences(self) -> list[str]:
        """Return how the node differs from its desired state now."""
        self._differences = []
        self._compare()
        return self._differences

    def _expect(self, holds: object, text: str) -> None:
        self.checked += 1
        if not holds:
            self._differences.append(text)

    def _compare(self) -> None:
        node = self._node
        self._expect(node.process, f"the agent is not running: {node.failure!r}")
        if not node.process:
            return
        pods = {
            pod["metadata"]["uid"]: pod for pod in node.server.objects.get(PODS, {}).values() if not static_uid(pod)
        }
        running = Counter(container.sandbox.uid for container in node.runtime.running())
        static = {path.stem for path in node.manifests.iterdir()}
        for uid, pod in pods.items():
            self._verify_converged_pod(uid, pod, running[uid])
        for container in node.runtime.running():
            if container.sandbox.uid in pods:
                self._verify_config(container, pods[container.sandbox.uid])
                if node.is_latest:
                    self._verify_resources(container, pods[container.sandbox.uid])
        self._verify_claims(pods)
        for sandbox in node.runtime.sandboxes.values():
            name = sandbox.config.metadata.name
            desired = sandbox.uid in pods or name.removesuffix("-node-1") in static
            self._expect(desired, f"sandbox {sandbox.id} of pod {sandbox.uid} remains after the deletion of the pod")
        names = {c.sandbox.config.metadata.name.removesuffix("-node-1") for c in node.runtime.running()}
        mirrors = {
            name.removesuffix("-node-1"): pod.get("status") or {}
            for (_, name), pod in node.server.objects.get(PODS, {}).items()
            if static_uid(pod)
        }
        for name in static:
            # As by the kubelet, a static pod that was rejected is not admitted again while the agent runs.
            rejected = mirrors.get(name, {}).get("reason") in _REJECTED
            self._expect(rejected or name in names, f"static pod {name} does not run")
        self._expect(
            mirrors.keys() == static, f"mirror pods {sorted(mirrors)} do not match the static pods {sorted(static)}"
        )
        self._verify_node()
        tasks = node.loop.tasks_of(node.process)
        limit = 60 + 15 * (len(pods) + len(static))
        self._expect(len(tasks) <= limit, f"the agent has {len(tasks)} tasks with {len(pods)} pods")
        self._expect(len(node.server.watches) <= 10, f"the agent has {len(node.server.watches)} watches")

    def _verify_converged_pod(self, uid: str, pod: dict[str, Any], running: int) -> None:
        status, deleted = pod.get("status") or {}, pod["metadata"].get("deletionTimestamp")
        self._expect(not deleted, f"pod {uid} is not deleted, although this was requested at {deleted}")
        phase = status.get("phase")
        reported = [c["name"] for c in container_statuses(status) if "running" in c.get("state", {})]
        self._expect(
            len(reported) == running, f"{running} containers of pod {uid} run, but its status reports {reported}"
        )
        if deadline := pod["spec"].get("activeDeadlineSeconds"):
            since = self._node.clock.wall() - read_time(status.get("startTime"))
            exceeded = since.total_seconds() > deadline + _INFORMED_SECONDS
            self._expect(phase in FINISHED or not exceeded, f"pod {uid} runs longer than {deadline} s")
        if phase in FINISHED:
            self._expect(not running, f"pod {uid} has the phase {phase}, but {running} containers run")
        elif not self._finishes(pod):
            ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ())
            self._expect(phase == "Running", f"pod {uid} has the phase {phase} after a time without faults")
            expected = not self._is_unready(pod)
            text = f"pod {uid} is {'not ' if expected else ''}ready after a time without faults"
            self._expect(ready == expected, text)

    def _verify_node(self) -> None:
        """Verify that the node is ready without pressure, and that its lease is renewed."""
        server = self._node.server
        status = (server.find(NODES, "", NODE) or {}).get("status") or {}
        actual = {each["type"]: each["status"] for each in status.get("conditions") or ()}
        expected = {name: str(name == "Ready") for name in _NODE_CONDITIONS}
        self._expect(actual == expected, f"the node has the conditions {actual} after a time without faults")
        lease = server.find(LEASES, "kube-node-lease", NODE) or {"spec": {}}
        age = (self._node.clock.wall() - read_time(lease["spec"].get("renewTime"))).total_seconds()
        self._expect(0 <= age < _LEASE_SECONDS, f"the lease of the node was renewed {age:.0f} s ago")

    def _verify_config(self, container: Container, pod: dict[str, Any]) -> None:
        volumes = pod["spec"].get("volumes") or ()
        name = next((volume["configMap"]["name"] for volume in volumes if "configMap" in volume), "")
        latest = self._node.server.find(CONFIG_MAPS, pod["metadata"]["namespace"], name)
        expected = latest["data"] if latest is not None else {}
        for mount in container.config.mounts:
            if mount.container_path == MOUNT_PATH:
                files = read_files(Path(mount.host_path))
                text = f"{MOUNT_PATH} of container {container.name} of pod {container.sandbox.uid}"
                self._expect(files == expected, f"{text} contains {files} instead of {expected}")

    def _verify_claims(self, pods: Mapping[str, dict[str, Any]]) -> None:
        """Verify that the volumes of claims are mounted for the pods that run, and for no others."""
        driver, used = self._node.driver, set[str]()
        for container in self._node.runtime.running():
            uid = container.sandbox.uid
            volumes = pods[uid]["spec"].get("volumes") or () if uid in pods else ()
            claims = {each["persistentVolumeClaim"]["claimName"] for each in volumes if "persistentVolumeClaim" in each}
            used |= claims
            mounted = driver.mounted_for(uid)
            self._expect(
                claims == set(mounted), f"pod {uid} has the claims {sorted(claims)}, but {mounted} are mounted"
            )
        running = {container.sandbox.uid for container in self._node.runtime.running()}
        for uid in sorted(driver.pods() - running):
            self._expect(uid in pods, f"volumes of pod {uid} remain mounted after its deletion")
            used |= set(driver.mounted_for(uid))
        staged = driver.handles()
        self._expect(set(staged) == used, f"the volumes {staged} are staged, but {sorted(used)} are used")

    def _verify_resources(self, container: Container, pod: dict[str, Any]) -> None:
        status, actual = pod.get("status") or {}, quota(container.config)
        text = f"container {container.name} of pod {container.sandbox.uid} has the CPU limit {actual}m"
        for reported in status.get("containerStatuses") or ():
            if reported["name"] == container.name:
                limit = cpu_limit(reported)
                self._expect(actual == limit, f"{text}, but its status reports {limit}m")
        pending = any(each["type"] == "PodResizePending" for each in status.get("conditions") or ())
        for desired in pod["spec"]["containers"]:
            if desired["name"] == container.name and not pending:
                limit = cpu_limit(desired)
                self._expect(actual == limit, f"{text} instead of {limit}m")

    def _finishes(self, pod: dict[str, Any]) -> bool:
        """Return whether the containers of *pod* exit on their own."""
        spec = pod["spec"]
        limited = spec["restartPolicy"] != "Always" or "activeDeadlineSeconds" in spec
        return limited or any("args" in each or "restartPolicy" in each for each in spec["containers"])

    def _is_unready(self, pod: dict[str, Any]) -> bool:
        """Return whether a readiness probe of *pod* fails."""
        probed = {each["name"] for each in pod["spec"]["containers"] if "readinessProbe" in each}
        uid = pod["metadata"]["uid"]
        running = [each for each in self._node.runtime.running() if each.sandbox.uid == uid]
        return any(each.broken for each in running if each.name in probed)
