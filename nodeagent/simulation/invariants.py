"""Invariants of a node, verified at each change of the runtime and of the API server's objects."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from nodeagent.simulation.amounts import quota
from nodeagent.simulation.api_objects import FINISHED, container_statuses, read_time, static_uid
from nodeagent.simulation.apiserver import NODES, PODS, Change
from nodeagent.simulation.config_volumes import MOUNT_PATH, is_complete, read_files
from nodeagent.simulation.container_order import ContainerOrder
from nodeagent.simulation.evictions import Evictions
from nodeagent.simulation.image_removals import ImageRemovals
from nodeagent.simulation.logind import DELAY_SECONDS
from nodeagent.simulation.node import CPUS, SHUTDOWN_SECONDS, Node
from nodeagent.simulation.pods import RULE_CODE
from nodeagent.simulation.reported_status import ReportedStatus
from nodeagent.simulation.restart_rate import RestartRate
from nodeagent.simulation.runtime_objects import Container, Observer, Sandbox
from nodeagent.simulation.transport import Receiver

INFORMED_SECONDS = 2.0
"""Time after which the agent must act on the deletion of a pod that it was informed of."""
EVICTED_SECONDS = 30.0
"""Time after the end of a pressure in which pods may be stopped because of it."""
_LEAST_SECONDS = 2
"""Time that sidecars have at least, after the other containers have used the grace period."""


class Violation(Exception):
    """An invariant does not hold."""


class Invariants(Observer, Receiver):
    """Observer of a node that raises nothing, but records the first violation.

    :ivar forced: UIDs of pods that a user has deleted without a grace period.
    :ivar pressures: start and end of the times at which pods are evicted.
    :ivar delays: start and end of the times at which containers may be stopped later than intended.
    :ivar shutdowns: times at which a shutdown of the node was announced.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self.violation = ""
        self.forced: set[str] = set()
        self.pressures: list[tuple[float, float]] = []
        self.delays: list[tuple[float, float]] = []
        self.shutdowns: list[float] = []
        self.checked = 0
        self._informed: dict[str, float] = {}
        """Time at which the agent was informed that a pod no longer exists, by UID."""
        self._known: dict[str, set[str]] = {}
        self._policies: dict[str, str] = {}
        self._graces: dict[str, int] = {}
        self._finished: dict[str, str] = {}
        self._modified: set[str] = set()
        self._permitted: set[tuple[str, str]] = set()
        """Containers that may start once more because their pod is restarted in place."""
        self._restarts: dict[tuple[str, str], int] = {}
        self._outcomes: dict[tuple[str, str], list[int]] = {}
        self._order = ContainerOrder(node.runtime.running)
        self._reported, self._rate = ReportedStatus(), RestartRate()
        self._images = ImageRemovals(node, self._verify, self.delays) if node.has_pressure else None
        self._evictions = None
        if self._images is not None:
            self._evictions = Evictions(node, self._verify, self.delays, self._images.removable)
        node.runtime.observer = self
        node.server.changed = self._changed
        node.network.receiver = self

    def violate(self, text: str) -> None:
        """Record a violation."""
        self._node.trace.add("VIOLATION", text)
        if not self.violation:
            self.violation = text

    def _verify(self, holds: object, text: str) -> None:
        self.checked += 1
        if not holds:
            self.violate(text)

    # --- information of the agent -----------------------------------------------------------------------------

    def listing(self, uids: set[str]) -> Collection[str]:
        return set(self._policies) - uids

    def listed(self, gone: Collection[str]) -> None:
        for uid in gone:
            self._informed.setdefault(uid, self._node.loop.time())

    def delivered(self, kind: str, obj: dict[str, Any]) -> None:
        """Record that the agent received a watch event of a pod."""
        if kind == "DELETED":
            self._informed.setdefault(obj["metadata"]["uid"], self._node.loop.time())

    def requested(self, name: str, request: Any) -> None:
        """Verify a call of the runtime at the time at which the agent makes it."""
        if name == "RunPodSandbox":
            uid, what = request.config.metadata.uid, "a sandbox"
        elif name == "StartContainer":
            container = self._node.runtime.containers.get(request.container_id)
            if container is None:
                return
            uid, what = container.sandbox.uid, f"container {container.name}"
        else:
            if name == "RemoveImage" and self._images is not None:
                self._images.removing(request.image.image)
            if name == "StopContainer":
                container = self._node.runtime.containers.get(request.container_id)
                self._verify_stop(container)
                if self._evictions is not None and container is not None:
                    self._evictions.verify_stop(container.sandbox.uid, request.timeout)
            return
        gone = self._informed.get(uid)
        late = gone is not None and self._node.loop.time() - gone > INFORMED_SECONDS
        self._verify(not late, f"{what} of pod {uid} is started although the agent was informed of its deletion")
        self._verify(uid not in self._finished, f"{what} of pod {uid} is started after the pod had finished")

    def _verify_stop(self, container: Container | None) -> None:
        if container is None or not container.running:
            return
        if container.sandbox.uid in self.forced or self._is_restarting(container.sandbox.uid):
            return  # If it was deleted while the agent was not running, its sidecars are unknown.
        now, uid = self._node.loop.time(), container.sandbox.uid
        delayed = any(start <= now <= end + EVICTED_SECONDS for start, end in self.delays)
        problem = self._order.stop(container, now, self._grace(uid, now), delayed=delayed)
        self._verify(not problem, problem)

    # --- runtime ----------------------------------------------------------------------------------------------

    def sandbox_started(self, sandbox: Sandbox) -> None:
        others = [each.id for each in self._node.runtime.sandboxes.values() if each.uid == sandbox.uid and each.ready]
        self._verify(len(others) == 1, f"pod {sandbox.uid} has the sandboxes {others} at the same time")

    def started(self, container: Container) -> None:
        uid, name = container.sandbox.uid, container.name
        self.observe_pressure()
        same = [c.id for c in self._node.runtime.running() if (c.sandbox.uid, c.name) == (uid, name)]
        self._verify(len(same) == 1, f"container {name} of pod {uid} runs more than once: {same}")
        for device in _devices(container):
            holders = {c.sandbox.uid for c in self._node.runtime.running() if device in _devices(c)}
            self._verify(len(holders) == 1, f"device {device} is held by the pods {sorted(holders)}")
        for mount in container.config.mounts:
            if mount.container_path == "/etc/hosts":
                content = Path(mount.host_path).read_bytes()
                self._verify(b"localhost" in content, f"{mount.host_path} is damaged at the start of {name}")
        self._reported.started(container)
        if uid not in self._modified and not self._order.has_restart_all(uid):
            problem = self._rate.start(container, self._node.process, self._node.loop.time())
            self._verify(not problem, problem)
        pending, problem = self._order.is_pending(container), self._order.start(container)
        # A changed container is restarted alone if the agent did not observe that it had exited.
        restarted = uid in self._modified and self._order.has_restart_all(uid)
        self._verify(not problem or restarted, problem)
        if name.startswith("init"):
            failed = any(self._outcomes.get((uid, name), ()))
            never = self._policies.get(uid) == "Never" and not self._order.has_restart_all(uid)
            self._verify(not (failed and never), f"container {name} of pod {uid} is restarted although it failed")
        if name.startswith(("init", "sidecar", "debug")):
            return
        if (uid, name) in self._permitted:
            self._outcomes.pop((uid, name), None)
            if not pending:
                self._permitted.discard((uid, name))
        codes, policy = self._outcomes.setdefault((uid, name), []), self._policies.get(uid, "Always")
        if uid not in self._modified and self._order.rule(container):
            ruled = not codes or codes[-1] == RULE_CODE
            self._verify(ruled, f"container {name} of pod {uid} is restarted although no rule applies")
            return
        if policy == "Never":
            self._verify(not codes, f"container {name} of pod {uid} is restarted although it must never be")
        if policy == "OnFailure":
            self._verify(0 not in codes, f"container {name} of pod {uid} is restarted although it succeeded")

    def observe_pressure(self) -> None:
        """Record the pressure of the node."""
        if self._evictions is not None:
            self._evictions.observe()
        if self._images is not None:
            self._images.observe()

    def stored(self) -> None:
        self.observe_pressure()

    def verify_pressure(self) -> None:
        """Verify that the pressure of the node is reported."""
        if self._evictions is not None:
            self._evictions.verify_reported()

    def verify_evicted(self) -> None:
        """Verify that evicted pods have ended."""
        if self._evictions is not None:
            self._evictions.verify_ended()

    def verify_limits(self) -> None:
        """Verify that the CPU limits of the running containers, which are their requests, fit on the node."""
        running = [each for each in self._node.runtime.running() if each.sandbox.uid not in self.forced]
        limits = {f"{each.sandbox.uid}/{each.name}": quota(each.config) for each in running}
        self._verify(sum(limits.values()) <= 1000 * CPUS, f"the node has {CPUS} CPUs, but containers use {limits}")

    def verify_mounts(self) -> None:
        """Verify that the files and volumes of running containers exist, and the order of the driver's calls."""
        for problem in self._node.driver.violations:
            self.violate(f"the volume driver was called in the wrong order: {problem}")
        for container in self._node.runtime.running():
            for mount in container.config.mounts:
                text = f"{mount.container_path} of container {container.name} of pod {container.sandbox.uid}"
                self._verify(Path(mount.host_path).exists(), f"{text} is removed while the container runs")
                if mount.container_path == MOUNT_PATH:
                    files = read_files(Path(mount.host_path))
                    self._verify(is_complete(files), f"{text} has files of two versions: {files}")

    def started_up(self, container: Container) -> None:
        self._order.started_up(container)

    def probed(self, container: Container) -> None:
        problem = self._order.check(container)
        self._verify(not problem, problem)

    def ended(self, container: Container, cause: str) -> None:
        uid, name = container.sandbox.uid, container.name
        self._order.ended(container)
        self.observe_pressure()
        hooked = container.hook_requested_at is not None
        if cause in ("exit", "power") and container.signaled_at is None and not hooked:
            # Stopped containers may be started again because the pod was changed, or a probe failed.
            self._outcomes.setdefault((uid, name), []).append(container.exit_code)
            if self._order.restarts_all(container):
                self._restart(uid)
        if cause in ("exit", "stopped", "power"):
            return
        self._verify(cause != "removed", f"container {name} of pod {uid} is removed while it runs")
        if cause == "sandbox" and (container.sandbox.stop_outlived_client or container.outlasted):
            return  # The agent cannot track the call of a crashed agent, or the effect of a call that it has cancelled.
        since = container.stopping_since
        if name.startswith("sidecar"):  # Sidecars have the rest of the grace period.
            first = min(
                (c.stopping_since for c in self._of(container.sandbox) if c.stopping_since is not None), default=None
            )
            grace = self._grace(uid, first)
            if cause == "sandbox" or since is None:
                since = first
            elif first is not None:
                grace = min(grace, max(_LEAST_SECONDS, grace - (since - first) - 1.0))
        else:
            grace = self._grace(uid, since)
        lasted = 0.0 if since is None else self._node.loop.time() - since
        self._verify(
            lasted >= grace - 0.01 or uid in self.forced,
            f"container {name} of pod {uid} is killed ({cause}) {lasted:.1f} s after the stop request, "
            f"its grace period is {grace:g} s",
        )

    def _restart(self, uid: str) -> None:
        """Permit one start of each container of a pod, which is restarted in place."""
        self._permitted |= {(uid, name) for name in self._order.names(uid)}

    def _is_restarting(self, uid: str) -> bool:
        return any(key[0] == uid for key in self._permitted)

    # --- API server -------------------------------------------------------------------------------------------

    def _changed(self, change: Change) -> None:
        if change.collection == NODES and self._evictions is not None:
            self._evictions.verify_node(change.before, change.object)
        if change.collection != PODS:
            return
        pod = change.object
        meta, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
        uid = static_uid(pod) or meta["uid"]
        mirror = uid != meta["uid"]
        if change.type == "ADDED" and not mirror:
            self._policies[uid] = spec["restartPolicy"]
            self._order.added(uid, spec)
            if self._evictions is not None:
                self._evictions.added(uid, spec)
        if not mirror:
            grace = meta.get("deletionGracePeriodSeconds", spec["terminationGracePeriodSeconds"])
            self._graces[uid] = min(grace, self._graces.get(uid, grace))
        if change.type == "DELETED" and not mirror and uid not in self.forced:
            running = [c.id for c in self._node.runtime.running() if c.sandbox.uid == uid]
            self._verify(not running, f"pod {uid} is deleted while its containers {running} run")
        if change.before is not None and change.before["spec"] != spec:
            self._modified.add(uid)
            self._policies[uid] = "Always"  # A container that is stopped because of the change can exit on its own.
        if not mirror:
            self._verify_status(uid, status)

    def _verify_status(self, uid: str, status: dict[str, Any]) -> None:
        phase, before = status.get("phase", ""), self._finished.get(uid)
        self._verify(before in (None, phase), f"pod {uid} changes from phase {before} to {phase}")
        if phase in FINISHED:
            self._finished[uid] = phase
            if before is None and self._evictions is not None:
                self._evictions.verify_status(uid, status)
        for problem in self._reported.problems(uid, status):
            self.violate(problem)
        if status.get("reason") == "DeadlineExceeded" and before is None:
            self._verify_deadline(uid, status)
        for container in container_statuses(status):
            key = (uid, container["name"])
            count, known = container.get("restartCount", 0), self._restarts.get(key, 0)
            self._verify(count >= known, f"restart count of {key} decreases from {known} to {count}")
            self._restarts[key] = count

    def _verify_deadline(self, uid: str, status: Mapping[str, Any]) -> None:
        deadline, clock = self._order.deadline(uid), self._node.clock
        lasted = (clock.wall() - read_time(status.get("startTime"))).total_seconds()
        # The clock may have been ahead when the agent decided it.
        early = lasted < deadline - 1.0 and clock.now() - clock.jumped_at > deadline
        self._verify(not early, f"the deadline of pod {uid} is exceeded after {lasted:.1f} of {deadline} s")

    def _grace(self, uid: str, since: float | None) -> float:
        """Return the grace period of a pod that is stopped since a time; that of an evicted one is shorter."""
        now = self._node.loop.time()
        if self._is_restarting(uid):
            return 1
        for start, end in self.pressures:
            if since is not None and start <= now and since <= self._evicted_until(end):
                return 1
        grace = self._graces.get(uid, 5)  # That of static pods.
        evicted = self._evictions.grace(uid) if self._evictions is not None else None
        if evicted is not None:
            grace = min(grace, evicted)
        for start in self.shutdowns:
            if since is not None and start <= now and since <= start + DELAY_SECONDS:
                return min(grace, SHUTDOWN_SECONDS)
        return grace

    def _evicted_until(self, end: float) -> float:
        """Return until when the runtime can be requested to stop pods because of a pressure that ended."""
        until = end + EVICTED_SECONDS
        for started, ended in self.delays:  # In the order of their start.
            if started <= until:
                until = max(until, ended + EVICTED_SECONDS)
        return until

    def verify_shut_down(self, started: float) -> None:
        """Verify that no container runs if the agent permits a shutdown before the period for pods has passed.

        The pods of an API server that has not responded since the start of the agent are excepted.
        """
        if self._node.loop.time() - started >= SHUTDOWN_SECONDS:
            return
        known = {pod.uid for pod in self._node.agent.context.pods.all()} if self._node.agent is not None else set()
        containers = [each for each in self._node.runtime.running() if each.sandbox.uid in known]
        running = [f"{each.name} of pod {each.sandbox.uid}" for each in containers]
        self._verify(not running, f"the node shuts down while the containers {running} run")

    def _of(self, sandbox: Sandbox) -> list[Container]:
        return [each for each in self._node.runtime.containers.values() if each.sandbox is sandbox]

    def forget(self, retained: int) -> None:
        """Drop the records of pods that were deleted long ago, all but *retained*."""
        existing = {pod["metadata"]["uid"] for pod in self._node.server.objects.get(PODS, {}).values()}
        existing |= {sandbox.uid for sandbox in self._node.runtime.sandboxes.values()}
        for uid in [uid for uid in self._policies if uid not in existing][:-retained]:
            for records in (self._policies, self._informed, self._graces, self._finished):
                records.pop(uid, None)
        retained_uids = self._graces.keys() | existing
        self._order.forget(retained_uids, self._node.runtime.sandboxes)
        self._reported.forget(retained_uids)
        if self._evictions is not None:
            self._evictions.forget(retained_uids)
        if self._images is not None:
            self._images.forget()
        self._rate.forget(retained_uids)
        self._permitted = {key for key in self._permitted if key[0] in existing}
        self._modified &= retained_uids
        for table in (self._restarts, self._outcomes):
            for key in [key for key in table if key[0] not in self._graces and key[0] not in existing]:
                del table[key]


def _devices(container: Container) -> set[str]:
    """Return the devices that were allocated to a container."""
    return {device for env in container.config.envs if env.key == "DEVICES" for device in env.value.split(",")}
