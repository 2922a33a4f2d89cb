"""What logind is asked over D-Bus: to wait with a shutdown, and to say when one begins."""

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
    """logind cannot be reached, or does not do what it is asked."""

    reason = "LogindUnavailable"
    transient = True


class Logind:
    """Opens sessions with logind.

    :param who: how the inhibitor lock names its holder.
    :param drop_in: the configuration file that raises how long logind waits.
    """

    def __init__(self, who: str, drop_in: Path, clock: Clock) -> None:
        self._who, self._drop_in, self._clock = who, drop_in, clock

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """Connect to the system's message bus (``DBUS_SYSTEM_BUS_ADDRESS`` where it is set).

        :raises LogindError: there is no bus.
        """
        from dbus_fast import BusType
        from dbus_fast.aio import MessageBus

        bus: MessageBus | None = None
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                bus = MessageBus(bus_type=BusType.SYSTEM, negotiate_unix_fd=True)
                await bus.connect()
        except Exception as error:  # the library raises whatever its parser or the socket meets
            if bus is not None:
                with suppress(Exception):
                    bus.disconnect()
            raise LogindError(f"connect to the system's message bus: {error or 'no answer in time'}") from error
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

    :ivar shutdowns: ``True`` when a shutdown begins, ``False`` when it was called off, ``None`` when the bus is gone.
    """

    def __init__(self, bus: MessageBus, who: str, drop_in: Path, clock: Clock) -> None:
        self._bus, self._who, self._drop_in, self._clock = bus, who, drop_in, clock
        self._lock: int | None = None
        self.shutdowns: asyncio.Queue[bool | None] = asyncio.Queue()

    # --- shutdowns ------------------------------------------------------------------------------------------

    async def watch(self) -> None:
        """Have ``shutdowns`` filled from now on, first of all when one is under way already."""
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
        """Take the lock that delays a shutdown; one that is held already is given back afterwards.

        :raises LogindError: logind refuses.
        """
        why = f"{self._who.capitalize()} needs time to handle node shutdown"
        answer = await self._call(
            LOGIN, LOGIN_PATH, LOGIN_MANAGER, "Inhibit", "ssss", "shutdown", self._who, why, "delay"
        )
        if not answer.unix_fds:
            raise LogindError("inhibit a shutdown: logind gave no lock")
        self.release()
        self._lock = answer.unix_fds[0]

    def release(self) -> None:
        """Give the lock back, so that the shutdown goes on; without a lock nothing happens."""
        if self._lock is not None:
            lock, self._lock = self._lock, None
            os.close(lock)

    async def allow_delay(self, seconds: int) -> None:
        """Have logind wait up to *seconds* for the lock: a drop-in raises its limit where that is lower.

        :raises LogindError: the limit stays lower.
        """
        if await self._delay_seconds() >= seconds:
            return
        try:
            await asyncio.to_thread(_write, self._drop_in, f"[Login]\nInhibitDelayMaxSec={seconds}\n")
        except OSError as error:
            raise LogindError(f"raise the delay of logind to {seconds} s: {error}") from error
        await self._call(SYSTEMD, SYSTEMD_PATH, SYSTEMD_MANAGER, "KillUnit", "ssi", "systemd-logind.service", "all", 1)
        for _ in range(_RELOAD_STEPS):  # the signal is answered at once, and acted upon a little later
            delay = await self._delay_seconds()
            if delay >= seconds:
                _log.info("Delay of logind raised", extra={"seconds": seconds, "file": str(self._drop_in)})
                return
            await self._clock.sleep(_RELOAD_STEP_SECONDS)
        raise LogindError(f"raise the delay of logind to {seconds} s: it stays at {delay:g} s")

    # --- D-Bus ----------------------------------------------------------------------------------------------

    async def _delay_seconds(self) -> float:
        return float(await self._property("InhibitDelayMaxUSec")) / _MICROSECONDS

    async def _property(self, name: str) -> Any:
        answer = await self._call(LOGIN, LOGIN_PATH, _PROPERTIES, "Get", "ss", LOGIN_MANAGER, name)
        return answer.body[0].value

    async def _call(self, to: str, path: str, interface: str, member: str, signature: str, *body: Any) -> Message:
        from dbus_fast import Message, MessageType

        message = Message(
            destination=to, path=path, interface=interface, member=member, signature=signature, body=list(body)
        )
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                answer = await self._bus.call(message)
        except TimeoutError as error:
            raise LogindError(f"{interface}.{member}: no answer in time") from error
        except (OSError, EOFError, RuntimeError) as error:
            raise LogindError(f"{interface}.{member}: {error}") from error
        if answer is None or answer.message_type is MessageType.ERROR:
            told = "no answer" if answer is None else f"{answer.error_name}: {' '.join(map(str, answer.body))}"
            raise LogindError(f"{interface}.{member}: {told}")
        return answer


def _write(file: Path, content: str) -> None:
    file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    aside = file.with_name(f".{file.name}.new")
    aside.write_text(content, encoding="ascii")
    aside.chmod(0o644)
    aside.rename(file)
