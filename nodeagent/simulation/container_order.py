"""Order in which the containers of a pod may start and end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from nodeagent.model.restart import RESTART_ALL
from nodeagent.simulation.pods import RULE_CODE
from nodeagent.simulation.runtime_objects import Container

_SPARE_SECONDS = 0.5
"""Time by which the agent may be early, as it measures a grace period from before the request to the runtime."""


class ContainerOrder:
    """Containers that started and succeeded, by sandbox.

    :param running: returns the running containers.
    """

    def __init__(self, running: Callable[[], Iterable[Container]]) -> None:
        self._running = running
        self._specs: dict[str, Mapping[str, Any]] = {}
        self._passed: dict[str, set[str]] = {}
        """By sandbox, the init containers that have succeeded and the sidecars that have started."""
        self._repeatable: dict[str, set[str]] = {}
        """By sandbox, the init containers that succeeded while they were stopped because their state was unknown."""
        self._pending: dict[str, set[str]] = {}
        """By sandbox, the containers that may have been about to start when all of them had to start again."""

    def added(self, uid: str, spec: Mapping[str, Any]) -> None:
        """Record a new pod."""
        self._specs[uid] = spec

    def deadline(self, uid: str) -> int:
        """Return the active deadline of a pod in seconds; 0 is none."""
        return int(self._specs.get(uid, {}).get("activeDeadlineSeconds") or 0)

    def names(self, uid: str) -> list[str]:
        """Return the names of the regular containers of a pod."""
        return [each["name"] for each in self._specs.get(uid, {}).get("containers") or ()]

    def rule(self, container: Container) -> str:
        """Return the action of the restart rule of a container; empty without a rule."""
        rules = (self._spec(container) or {}).get("restartPolicyRules") or ()
        return next((rule["action"] for rule in rules), "")

    def has_restart_all(self, uid: str) -> bool:
        """Return whether a rule of a pod restarts all of its containers."""
        containers = self._specs.get(uid, {}).get("containers") or ()
        return any(
            rule["action"] == RESTART_ALL for each in containers for rule in each.get("restartPolicyRules") or ()
        )

    def restarts_all(self, container: Container) -> bool:
        """Return whether all containers of the pod start again after the exit of *container*."""
        return container.exit_code == RULE_CODE and self.rule(container) == RESTART_ALL

    def forget(self, retained: Collection[str], sandboxes: Collection[str]) -> None:
        """Drop all records of other pods and sandboxes."""
        self._specs = {uid: spec for uid, spec in self._specs.items() if uid in retained}
        self._passed = {sandbox: names for sandbox, names in self._passed.items() if sandbox in sandboxes}
        self._repeatable = {sandbox: names for sandbox, names in self._repeatable.items() if sandbox in sandboxes}
        self._pending = {sandbox: names for sandbox, names in self._pending.items() if sandbox in sandboxes}

    def ended(self, container: Container) -> None:
        """Record the end of a container."""
        if self.restarts_all(container):
            self._passed.pop(container.sandbox.id, None)
            self._pending[container.sandbox.id] = self._starting(container)
        elif container.exit_code == 0 and not self._is_sidecar(container):
            self._pass(container)
            if container.was_misreported and container.stopping_since is not None:
                self._repeatable.setdefault(container.sandbox.id, set()).add(container.name)

    def is_pending(self, container: Container) -> bool:
        """Return whether a container may start although all containers of its pod have to start again.

        The agent can have decided this before another container ended.
        """
        return container.name in self._pending.get(container.sandbox.id, ())

    def started_up(self, container: Container) -> None:
        """Record that the startup probe of a container has succeeded."""
        if self._is_sidecar(container):
            self._pass(container)

    def start(self, container: Container) -> str:
        """Record a start; return why it is too early, or an empty text."""
        uid, name, passed = container.sandbox.uid, container.name, self._passed.get(container.sandbox.id, set())
        spec = self._spec(container)
        if self._is_sidecar(container) and (spec is None or "startupProbe" not in spec):
            self._pass(container)
        if self.is_pending(container):
            self._pending[container.sandbox.id].discard(name)
            return ""
        if self._is_init(container):  # The agent has executed its earlier decisions.
            self._pending.pop(container.sandbox.id, None)
        if name.startswith("debug"):
            return ""
        for earlier in self._init_containers(uid):
            if earlier["name"] == name:
                break
            if earlier["name"] not in passed:
                return f"container {name} of pod {uid} starts before {earlier['name']} has passed"
        if spec is None or self._is_sidecar(container) or not self._is_init(container):
            return ""
        if name in passed and name not in self._repeatable.get(container.sandbox.id, ()):
            return f"container {name} of pod {uid} runs again although it has succeeded"
        if names := [each.name for each in self._others(container) if each.name.startswith("main")]:
            return f"container {name} of pod {uid} starts while {names} run"
        return ""

    def stop(self, container: Container, now: float, grace: float, *, delayed: bool) -> str:
        """Return why a request to stop a container is too early, or an empty text.

        :param grace: grace period of the pod, in seconds.
        :param delayed: whether stops can fail, so that the agent continues with the next containers.
        """
        if container.misreported:
            return ""
        hook = not delayed and grace > 0 and "preStop" in self._lifecycle(container)
        if hook and container.hook_requested_at is None:
            return f"{container.name} of pod {container.sandbox.uid} is stopped before its preStop hook"
        if not self._is_sidecar(container):
            return ""
        for other in self._others(container):
            if not other.name.startswith("main"):
                continue
            if other.stopping_since is None:
                return f"{container.name} of pod {other.sandbox.uid} is stopped before {other.name}"
            if not delayed and now - other.stopping_since < grace - _SPARE_SECONDS:
                return f"{container.name} of pod {other.sandbox.uid} is stopped while {other.name} has time to end"
        return ""

    def check(self, container: Container) -> str:
        """Return why the execution of a liveness or readiness probe is too early, or an empty text."""
        spec = self._spec(container)
        if spec is None or "startupProbe" not in spec or container.started_up:
            return ""
        return f"{container.name} of pod {container.sandbox.uid} is probed before its startup probe has succeeded"

    def _starting(self, ended: Container) -> set[str]:
        """Return the regular containers and sidecars that do not run or are being stopped at the end of a container."""
        uid = ended.sandbox.uid
        sidecars = [each["name"] for each in self._init_containers(uid) if "restartPolicy" in each]
        left_alone = {each.name for each in (*self._others(ended), ended) if each.stopping_since is None}
        return {*self.names(uid), *sidecars} - left_alone

    def _pass(self, container: Container) -> None:
        self._passed.setdefault(container.sandbox.id, set()).add(container.name)

    def _others(self, container: Container) -> list[Container]:
        return [other for other in self._running() if other.sandbox is container.sandbox and other is not container]

    def _init_containers(self, uid: str) -> Sequence[Mapping[str, Any]]:
        return self._specs.get(uid, {}).get("initContainers") or ()

    def _spec(self, container: Container) -> Mapping[str, Any] | None:
        spec = self._specs.get(container.sandbox.uid, {})
        containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
        return next((each for each in containers if each["name"] == container.name), None)

    def _lifecycle(self, container: Container) -> Mapping[str, Any]:
        return (self._spec(container) or {}).get("lifecycle") or {}

    def _is_init(self, container: Container) -> bool:
        return any(each["name"] == container.name for each in self._init_containers(container.sandbox.uid))

    def _is_sidecar(self, container: Container) -> bool:
        return self._is_init(container) and "restartPolicy" in (self._spec(container) or {})
