"""sd_notify client: readiness, watchdog pings and shutdown notifications.

Custom, since the protocol is one datagram per notification.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, MutableMapping

from nodeagent.base.aio import Clock

_log = logging.getLogger(__name__)

SOCKET, WATCHDOG_USEC, WATCHDOG_PID = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"
STATUS_SECONDS = 10.0
"""Interval of status updates, unless the watchdog requires a shorter one."""
_MAX_STATUS = 200


class ServiceManager:
    """Service manager that started this process; without one, all calls do nothing.

    A message is one datagram, sent without waiting. The variables are removed from *environment*, so that child
    processes cannot notify on behalf of this one.

    :param environment: has ``NOTIFY_SOCKET`` (a path, or ``@name`` for an abstract socket) and
        ``WATCHDOG_USEC``.
    """

    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        self._address = environment.pop(SOCKET, "")
        limit, pid = environment.pop(WATCHDOG_USEC, ""), environment.pop(WATCHDOG_PID, "")
        ours = not pid or pid == str(os.getpid())
        self.watchdog_seconds = int(limit) / 1_000_000 if limit.isdecimal() and ours else 0.0
        """Watchdog timeout of the service manager; 0 if it expects no pings."""
        self._status = ""
        if self._address and self._address[0] not in "/@":
            _log.warning("Unsupported address of the service manager's socket", extra={"socket": self._address})
            self._address = ""

    @property
    def present(self) -> bool:
        """Return whether a service manager expects notifications."""
        return bool(self._address)

    def ready(self, status: str) -> None:
        """Notify that the process is ready."""
        self._status = status
        self._send("READY=1", f"STATUS={_line(status)}")

    def reloading(self) -> None:
        """Notify that the process reloads its configuration; :meth:`ready` ends it."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}", "STATUS=Reloading")

    def stopping(self) -> None:
        """Notify that the process is about to exit."""
        self._send("STOPPING=1", "STATUS=Stopping")

    def ping(self) -> None:
        """Send a watchdog ping if the service manager expects pings; safe in any thread."""
        if self.watchdog_seconds:
            self._send("WATCHDOG=1")

    async def run_watchdog(self, status: Callable[[], str], clock: Clock) -> None:
        """Send watchdog pings from this event loop, and *status* whenever it has changed, until cancelled.

        A blocked event loop sends no pings; the service manager then restarts the process.
        """
        if not self.present:
            return
        every = min(self.watchdog_seconds / 3, STATUS_SECONDS) if self.watchdog_seconds else STATUS_SECONDS
        while True:
            messages = ["WATCHDOG=1"] if self.watchdog_seconds else []
            if (now := status()) != self._status:
                self._status = now
                messages.append(f"STATUS={_line(now)}")
            if messages:
                self._send(*messages)
            await clock.sleep(every)

    def _send(self, *messages: str) -> None:
        if not self._address:
            return
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK) as line:
                line.sendto("\n".join(messages).encode(), address)
        except OSError as error:
            _log.warning("Failed to notify the service manager", extra={"err": str(error), "message_sent": messages[0]})


def _line(text: str) -> str:
    return " ".join(text.split())[:_MAX_STATUS]
