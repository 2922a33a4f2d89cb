"""Sandboxes and containers of the simulated runtime, and notifications about them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from nodeagent.base.criproto import api_pb2 as cri


class RuntimeProblem(Exception):
    """An error response; *code* is the name of a gRPC status in lower case."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, text


@dataclass(eq=False, slots=True)
class Sandbox:
    """A pod sandbox of the runtime."""

    id: str
    config: Any
    created_at: int
    ip: str
    handler: str = ""
    ready: bool = True
    pending_stops: int = 0
    """Number of calls to stop it that have not returned."""
    misreported: bool = False
    """The runtime reports that it is not ready."""
    stop_outlived_client: bool = False
    """A client crashed while its call to stop the sandbox was pending; the call can take effect at any time."""

    _listed: Any = None

    @property
    def uid(self) -> str:
        return str(self.config.metadata.uid)

    @property
    def state(self) -> Any:
        return cri.SANDBOX_READY if self.ready and not self.misreported else cri.SANDBOX_NOTREADY

    def listed(self) -> Any:
        """Return the item of a list; only its state changes."""
        if self._listed is None:
            self._listed = cri.PodSandbox(
                id=self.id,
                metadata=self.config.metadata,
                created_at=self.created_at,
                labels=self.config.labels,
                annotations=self.config.annotations,
                runtime_handler=self.handler,
            )
        self._listed.state = self.state
        return self._listed


@dataclass(eq=False, slots=True)
class Container:
    """A container of the runtime.

    :ivar stop_seconds: time from the stop signal until it exits; ``None`` if it ignores the signal.
    :ivar broken: liveness and readiness probes fail.
    :ivar misreported: the runtime reports that its state is unknown, or has done so (*was_misreported*).
    """

    id: str
    sandbox: Sandbox
    config: Any
    created_at: int
    state: Any = cri.CONTAINER_CREATED
    existing_since: float = 0.0
    started_at: int = 0
    finished_at: int = 0
    exit_code: int = 0
    reason: str = ""
    stop_seconds: float | None = 0.0
    signaled_at: float | None = None
    broken: bool = False
    misreported: bool = False
    was_misreported: bool = False
    message: str | None = ""
    """Termination message that it has written; ``None`` if it may have been lost."""
    running_since: float = 0.0
    outlasted: bool = False
    """The stop of its sandbox was requested before it started, by a call that lasted longer."""
    started_up: bool = False
    """The startup probe has succeeded."""
    requested_at: float | None = None
    """Time at which a client first sent a request to stop it, even if the request failed."""
    hook_requested_at: float | None = None
    """Time at which a client first sent a request to execute its preStop hook."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    _listed: Any = None

    @property
    def name(self) -> str:
        return str(self.config.metadata.name)

    @property
    def stopping_since(self) -> float | None:
        """Time of the first request to execute its preStop hook or to stop it."""
        times = [time for time in (self.hook_requested_at, self.requested_at) if time is not None]
        return min(times, default=None)

    @property
    def running(self) -> bool:
        return bool(self.state == cri.CONTAINER_RUNNING)

    @property
    def reported_state(self) -> Any:
        """Return the state that the runtime reports."""
        return cri.CONTAINER_UNKNOWN if self.running and self.misreported else self.state

    def listed(self) -> Any:
        """Return the item of a list; only its state changes."""
        if self._listed is None:
            self._listed = cri.Container(
                id=self.id,
                pod_sandbox_id=self.sandbox.id,
                metadata=self.config.metadata,
                image=self.config.image,
                image_ref=self.config.image.image,
                created_at=self.created_at,
                labels=self.config.labels,
                annotations=self.config.annotations,
            )
        self._listed.state = self.reported_state
        return self._listed


class Observer:
    """Notifications about changes in the runtime, for invariants."""

    def requested(self, name: str, request: Any) -> None:
        """Record a call that the agent makes."""

    def sandbox_started(self, sandbox: Sandbox) -> None:
        """Record the start of a sandbox."""

    def started(self, container: Container) -> None:
        """Record the start of a container."""

    def signaled(self, container: Container, grace_seconds: float) -> None:
        """Record the stop signal to a container."""

    def started_up(self, container: Container) -> None:
        """Record the first success of a startup probe."""

    def probed(self, container: Container) -> None:
        """Record the execution of a liveness or readiness probe."""

    def ended(self, container: Container, cause: str) -> None:
        """Record the end of a container, with its cause: exit, stopped, killed, sandbox, removed or power."""

    def stored(self) -> None:
        """Record a change of the images, or of the containers that exist."""
