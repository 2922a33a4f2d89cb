"""Simulated logind on a simulated system bus: locks that delay a shutdown, and the signals about it."""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Callable
from contextvars import Context
from types import SimpleNamespace
from typing import Any

from nodeagent.base.simulation.loop import SimulatedLoop
from nodeagent.base.simulation.trace import Trace

DELAY_SECONDS = 60.0
"""Time that a lock can delay a shutdown."""
_CHECK_SECONDS = 0.5
_MANAGER = "org.freedesktop.login1.Manager"


class SimulatedLogind:
    """logind of a node.

    :ivar down: the bus rejects connections.
    """

    def __init__(self, loop: SimulatedLoop, trace: Trace) -> None:
        self.down = False
        self._loop, self._trace = loop, trace
        self._preparing = False
        self._buses: list[SimulatedBus] = []
        self._locks: list[tuple[int, int]] = []
        """The end of logind and that of the client."""

    def bus(self, **_options: Any) -> SimulatedBus:
        """Return a new connection."""
        return SimulatedBus(self)

    @property
    def delayed(self) -> bool:
        """``True`` if a client holds a lock."""
        self._drop_released()
        return bool(self._locks)

    def prepare(self, shut_down: Callable[[bool], None]) -> bool:
        """Announce a shutdown; return false if one is already announced.

        :param shut_down: called once no lock is held, with whether a client has released one.
        """
        if self._preparing:
            return False
        held = self.delayed
        self._signal(preparing=True)
        until = self._loop.time() + DELAY_SECONDS
        self._loop.call_later(_CHECK_SECONDS, self._check, until, shut_down, held, context=Context())
        return True

    def cancel(self) -> None:
        """Cancel the announced shutdown."""
        if self._preparing:
            self._signal(preparing=False)

    def disconnect(self) -> None:
        """Close all connections; locks remain."""
        for bus in list(self._buses):
            bus.disconnect()

    def forget_clients(self) -> None:
        """Close the connections and the locks of a client that has crashed."""
        self._buses.clear()
        self._drop_released()
        for ours, theirs in self._locks:
            os.close(theirs)
            os.close(ours)
        self._locks.clear()

    def _signal(self, *, preparing: bool) -> None:
        self._preparing = preparing
        self._trace.add("logind", f"prepare for shutdown: {preparing}")
        for bus in self._buses:
            bus.deliver(preparing=preparing)

    def _check(self, until: float, shut_down: Callable[[bool], None], held: bool) -> None:
        """Shut down, unless the shutdown was cancelled or a lock delays it."""
        if not self._preparing:
            return
        delayed = self.delayed
        if delayed and self._loop.time() < until:
            self._loop.call_later(_CHECK_SECONDS, self._check, until, shut_down, held, context=Context())
            return
        self._preparing = False
        shut_down(held and not delayed)

    def _drop_released(self) -> None:
        for lock in [lock for lock in self._locks if _is_closed(lock[0])]:
            self._locks.remove(lock)
            os.close(lock[0])

    def respond(self, bus: SimulatedBus, message: Any) -> Any:
        """Return the response to a call."""
        body: list[Any] = []
        descriptors = []
        if message.member == "AddMatch":
            self._buses.append(bus)
        elif message.member == "Inhibit":
            ours, theirs = os.pipe()
            self._locks.append((ours, theirs))
            descriptors = [theirs]
        elif message.body[1] == "PreparingForShutdown":
            body = [SimpleNamespace(value=self._preparing)]
        else:
            body = [SimpleNamespace(value=int(DELAY_SECONDS * 1e6))]
        return SimpleNamespace(message_type=None, body=body, unix_fds=descriptors)

    def closed(self, bus: SimulatedBus) -> None:
        """Drop a connection."""
        if bus in self._buses:
            self._buses.remove(bus)


class SimulatedBus:
    """Connection to the system bus, with the interface of ``dbus_fast.aio.MessageBus``."""

    def __init__(self, logind: SimulatedLogind) -> None:
        self._logind = logind
        self._handlers: list[Callable[[Any], None]] = []
        self._closed = asyncio.Event()

    async def connect(self) -> None:
        if self._logind.down:
            raise ConnectionRefusedError("no bus")

    def add_message_handler(self, handler: Callable[[Any], None]) -> None:
        self._handlers.append(handler)

    async def call(self, message: Any) -> Any:
        await asyncio.sleep(0.01)
        if self._closed.is_set():
            raise EOFError
        return self._logind.respond(self, message)

    def deliver(self, *, preparing: bool) -> None:
        """Deliver the signal about a shutdown to the client."""
        signal = SimpleNamespace(interface=_MANAGER, member="PrepareForShutdown", signature="b", body=[preparing])
        for handler in self._handlers:
            handler(signal)

    def disconnect(self) -> None:
        self._logind.closed(self)
        self._closed.set()

    async def wait_for_disconnect(self) -> None:
        await self._closed.wait()


def _is_closed(descriptor: int) -> bool:
    """Return whether the other end of a pipe was closed."""
    return bool(select.select([descriptor], [], [], 0)[0])
