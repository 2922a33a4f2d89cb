"""What a program tells the service manager that started it: ready, alive, stopping (the protocol of sd_notify)."""

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
"""How often the status is looked at where no watchdog asks for more."""
_MAX_STATUS = 200


class ServiceManager:
    """The service manager, or nobody: then every call does nothing.

    A message is one datagram that is never waited for. The variables that name the socket are taken out of
    *environment*, so that no child speaks for this program.

    :param environment: where the manager has put ``NOTIFY_SOCKET`` (a path, or ``@name`` of the abstract kind) and
        ``WATCHDOG_USEC``.
    """

    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        self._address = environment.pop(SOCKET, "")
        limit, pid = environment.pop(WATCHDOG_USEC, ""), environment.pop(WATCHDOG_PID, "")
        ours = not pid or pid == str(os.getpid())
        self.watchdog_seconds = int(limit) / 1_000_000 if limit.isdecimal() and ours else 0.0
        """Within which the manager wants to hear of us; 0 if it does not."""
        self._status = ""
        if self._address and self._address[0] not in "/@":
            _log.warning("The service manager's socket is of a kind that is not known", extra={"socket": self._address})
            self._address = ""

    @property
    def present(self) -> bool:
        """Whether somebody wants to be told."""
        return bool(self._address)

    def ready(self, status: str) -> None:
        """The program serves from now on."""
        self._status = status
        self._send("READY=1", f"STATUS={_line(status)}")

    def reloading(self) -> None:
        """The program takes over a changed configuration; :meth:`ready` ends it."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}", "STATUS=Starting anew")

    def stopping(self) -> None:
        """The program is about to end."""
        self._send("STOPPING=1", "STATUS=Stopping")

    async def keep_told(self, status: Callable[[], str], clock: Clock) -> None:
        """Send signs of life, from the event loop that runs this, and *status* whenever it has changed; for ever.

        An event loop that is held up sends none: then the manager ends the program and starts it again.
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
            _log.warning("The service manager cannot be told", extra={"err": str(error), "what": messages[0]})


def _line(text: str) -> str:
    return " ".join(text.split())[:_MAX_STATUS]
