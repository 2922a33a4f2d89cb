"""Queue of operations on volumes: serial per volume or per pod and volume, with a back-off after errors.

Every operation is a dedicated task: a pod sync that stops waiting never cancels it. Operations end by their own time
limits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from nodeagent.base.aio import Clock, TaskOwner
from nodeagent.base.structs import MutableStruct
from nodeagent.errors import NodeAgentError

INITIAL_SECONDS, MAX_SECONDS = 0.5, 122.0
"""First and longest delay after an error; the delay doubles with each consecutive one."""

_log = logging.getLogger(__name__)


class Operation(MutableStruct):
    """A running operation."""

    volume: str
    pod: str
    """UID of the pod; empty if the operation excludes all others on the volume."""
    name: str
    """Name in metrics, such as ``volume_mount``."""
    started: float
    task: asyncio.Task[None]


class Failure(MutableStruct):
    """The last error of a key, and the earliest time of the next attempt with the same name."""

    name: str
    text: str
    delay: float
    due: float


class OperationQueue:
    """Runs at most one operation per matching key; an empty pod matches every pod of the volume.

    :param ended: called with the volume and the pod after each operation and at the end of each back-off.
    :param stopped: called after an operation was cancelled, because the agent stops.
    """

    def __init__(
        self, clock: Clock, tasks: TaskOwner, ended: Callable[[str, str], None], stopped: Callable[[], None]
    ) -> None:
        self._clock, self._tasks, self._ended, self._stopped = clock, tasks, ended, stopped
        self._running: dict[str, dict[str, Operation]] = {}
        self._failures: dict[str, dict[str, Failure]] = {}

    def start(
        self, volume: str, pod: str, name: str, work: Callable[[], Coroutine[Any, Any, None]], *, paced: bool = False
    ) -> Operation | None:
        """Start an operation, unless a matching one runs or the key is in back-off for *name*.

        :param volume: unique name of the volume.
        :param pod: UID of the pod, or empty to exclude all other operations on the volume.
        :param name: the operation, as in metrics.
        :param work: called to create the coroutine of the operation.
        :param paced: the caller determines the time of each attempt: ignore the back-off and do not call it at its end.
        """
        running = self._running.get(volume)
        if running and (not pod or "" in running or pod in running):
            return None
        failure = self.failure(volume, pod)
        now = self._clock.now()
        if failure is not None and failure.name == name and failure.due > now and not paced:
            return None
        task = self._tasks.start(self._run(volume, pod, name, work, paced), f"{name} {volume}")
        operation = Operation(volume, pod, name, now, task)
        self._running.setdefault(volume, {})[pod] = operation
        return operation

    def running(self, volume: str) -> list[Operation]:
        """Return the operations in progress on *volume*."""
        running = self._running.get(volume)
        return list(running.values()) if running else []

    def failure(self, volume: str, pod: str) -> Failure | None:
        """Return the last error of a key, unless an operation has succeeded since."""
        failures = self._failures.get(volume)
        return failures.get(pod) if failures else None

    def failures(self, volume: str) -> list[Failure]:
        """Return the last errors of all keys of *volume*."""
        return list(self._failures.get(volume, {}).values())

    def forget(self, volume: str) -> None:
        """Drop the errors of a volume that is no longer on this node."""
        self._failures.pop(volume, None)

    async def _run(
        self, volume: str, pod: str, name: str, work: Callable[[], Coroutine[Any, Any, None]], paced: bool
    ) -> None:
        try:
            await work()
        except asyncio.CancelledError:  # The agent stops; a restart finds the volume uncertain.
            self._remove(volume, pod)
            self._stopped()
            raise
        except Exception as error:
            self._remove(volume, pod)
            self._failed(volume, pod, name, error, paced)
        else:
            self._remove(volume, pod)
            if failures := self._failures.get(volume):
                failures.pop(pod, None)
        self._ended(volume, pod)

    def _remove(self, volume: str, pod: str) -> None:
        running = self._running[volume]
        del running[pod]
        if not running:
            del self._running[volume]

    def _failed(self, volume: str, pod: str, name: str, error: Exception, paced: bool) -> None:
        if not isinstance(error, NodeAgentError | OSError):
            _log.error("Volume operation failed", extra={"volume": volume, "operation": name}, exc_info=error)
        failures = self._failures.setdefault(volume, {})
        before = failures.get(pod)
        delay = INITIAL_SECONDS
        if before is not None and before.name == name:
            delay = min(before.delay * 2, MAX_SECONDS)
        failures[pod] = Failure(name, error_text(error), delay, self._clock.now() + delay)
        if not paced:
            self._tasks.start(self._retry(volume, pod, delay), f"retry {volume}")

    async def _retry(self, volume: str, pod: str, delay: float) -> None:
        await self._clock.sleep(delay)
        self._ended(volume, pod)


def error_text(error: BaseException) -> str:
    """Return the message of an error, for users."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error) or type(error).__name__
