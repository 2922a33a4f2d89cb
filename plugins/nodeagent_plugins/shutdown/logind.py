"""D-Bus client for logind: inhibitor locks and shutdown signals."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodeagent.base.aio import Clock
from nodeagent.errors import NodeAgentError

if TYPE_CHECKING:
    from dbus_fast import Message
    from dbus_fast.aio import MessageBus

_log = logging.getLogger(__name__)

LOGIN = "org.freedesktop.login1"
LOGIN_PATH = "/org/freedesktop/login1"
LOGIN_MANAGER = "org.freedesktop.login1.Manager"
SYSTEMD = "org.freedesktop.systemd1"
SYSTEMD_PATH = "/org/freedesktop/systemd1"
SYSTEMD_MANAGER = "org.freedesktop.systemd1.Manager"
_PROPERTIES = "org.freedesktop.DBus.Properties"
_CALL_SECONDS = 10.0
_RELOAD_STEPS = 25
_RELOAD_STEP_SECONDS = 0.2
_MICROSECONDS = 1_000_000


class LogindError(NodeAgentError):
    """logind is unreachable or returned an error."""

    reason = "LogindUnavailable"
    transient = True


class Logind:
    """Connects to logind.

    :param who: name of the lock owner in logind.
    :param drop_in: configuration file that raises logind's maximum inhibit delay.
    """

    def __init__(self, who: str, drop_in: Path, clock: Clock) -> None:
        self._who, self._drop_in, self._clock = who, drop_in, clock

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """Connect to the system bus (``DBUS_SYSTEM_BUS_ADDRESS`` if set).

        :raises LogindError: the connection failed.
        """
        from dbus_fast import BusType
        from dbus_fast.aio import MessageBus

        bus: MessageBus | None = None
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                bus = MessageBus(bus_type=BusType.SYSTEM, negotiate_unix_fd=True)
                await bus.connect()
        except Exception as error:  # The library raises various exceptions of its parser and the socket.
            if bus is not None:
                with suppress(Exception):
                    bus.disconnect()
            raise LogindError(f"connect to the system's message bus: {error or 'timed out'}") from error
        session = Session(bus, self._who, self._drop_in, self._clock)
        try:
            yield session
        finally:
            session.release()
            bus.disconnect()
            with suppress(Exception):
                async with asyncio.timeout(1):
                    await bus.wait_for_disconnect()  # type: ignore[no-untyped-call]


class Session:
    """One connection to logind; holds at most one inhibitor lock.

    :ivar shutdowns: ``True`` when a shutdown starts, ``False`` when it is cancelled, ``None`` when the bus is lost.
    """

    def __init__(self, bus: MessageBus, who: str, drop_in: Path, clock: Clock) -> None:
        self._bus, self._who, self._drop_in, self._clock = bus, who, drop_in, clock
        self._lock: int | None = None
        self.shutdowns: asyncio.Queue[bool | None] = asyncio.Queue()

    # --- shutdowns ------------------------------------------------------------------------------------------

    async def watch(self) -> None:
        """Start filling ``shutdowns``; a shutdown that is already in progress is included."""
        rule = f"type='signal',interface='{LOGIN_MANAGER}',member='PrepareForShutdown',path='{LOGIN_PATH}'"
        self._bus.add_message_handler(self._on_message)
        watcher = asyncio.ensure_future(self._bus.wait_for_disconnect())  # type: ignore[no-untyped-call]
        watcher.add_done_callback(self._on_disconnect)
        await self._call("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "AddMatch", "s", rule)
        if await self._property("PreparingForShutdown"):
            self.shutdowns.put_nowait(True)

    def _on_message(self, message: Message) -> None:
        if (message.interface, message.member) == (LOGIN_MANAGER, "PrepareForShutdown") and message.signature == "b":
            self.shutdowns.put_nowait(bool(message.body[0]))

    def _on_disconnect(self, watcher: asyncio.Future[None]) -> None:
        if not watcher.cancelled():
            watcher.exception()
            self.shutdowns.put_nowait(None)

    # --- the lock -------------------------------------------------------------------------------------------

    async def inhibit(self) -> None:
        """Take the lock that delays a shutdown; a lock that is already held is released afterwards.

        :raises LogindError: logind rejects the request.
        """
        why = f"{self._who.capitalize()} needs time to handle node shutdown"
        response = await self._call(
            LOGIN, LOGIN_PATH, LOGIN_MANAGER, "Inhibit", "ssss", "shutdown", self._who, why, "delay"
        )
        if not response.unix_fds:
            raise LogindError("failed to inhibit shutdown: logind returned no lock")
        self.release()
        self._lock = response.unix_fds[0]

    def release(self) -> None:
        """Release the lock, so that the shutdown continues; does nothing without a lock."""
        if self._lock is not None:
            lock, self._lock = self._lock, None
            os.close(lock)

    async def allow_delay(self, seconds: int) -> None:
        """Ensure that logind waits up to *seconds* for the lock; a drop-in raises its limit if necessary.

        :raises LogindError: the limit remains lower.
        """
        if await self._delay_seconds() >= seconds:
            return
        try:
            await asyncio.to_thread(_write, self._drop_in, f"[Login]\nInhibitDelayMaxSec={seconds}\n")
        except OSError as error:
            raise LogindError(f"failed to raise the inhibit delay of logind to {seconds} s: {error}") from error
        await self._call(SYSTEMD, SYSTEMD_PATH, SYSTEMD_MANAGER, "KillUnit", "ssi", "systemd-logind.service", "all", 1)
        for _ in range(_RELOAD_STEPS):  # The reload is asynchronous.
            delay = await self._delay_seconds()
            if delay >= seconds:
                _log.info("Raised inhibit delay of logind", extra={"duration": seconds, "path": str(self._drop_in)})
                return
            await self._clock.sleep(_RELOAD_STEP_SECONDS)
        raise LogindError(f"failed to raise the inhibit delay of logind to {seconds} s: it remains {delay:g} s")

    # --- D-Bus ----------------------------------------------------------------------------------------------

    async def _delay_seconds(self) -> float:
        return float(await self._property("InhibitDelayMaxUSec")) / _MICROSECONDS

    async def _property(self, name: str) -> Any:
        response = await self._call(LOGIN, LOGIN_PATH, _PROPERTIES, "Get", "ss", LOGIN_MANAGER, name)
        return response.body[0].value

    async def _call(self, to: str, path: str, interface: str, member: str, signature: str, *body: Any) -> Message:
        from dbus_fast import Message, MessageType

        message = Message(
            destination=to, path=path, interface=interface, member=member, signature=signature, body=list(body)
        )
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                response = await self._bus.call(message)
        except TimeoutError as error:
            raise LogindError(f"{interface}.{member}: timed out") from error
        except (OSError, EOFError, RuntimeError) as error:
            raise LogindError(f"{interface}.{member}: {error}") from error
        if response is None or response.message_type is MessageType.ERROR:
            detail = (
                "no response" if response is None else f"{response.error_name}: {' '.join(map(str, response.body))}"
            )
            raise LogindError(f"{interface}.{member}: {detail}")
        return response


def _write(file: Path, content: str) -> None:
    file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    aside = file.with_name(f".{file.name}.new")
    aside.write_text(content, encoding="ascii")
    aside.chmod(0o644)
    aside.rename(file)
