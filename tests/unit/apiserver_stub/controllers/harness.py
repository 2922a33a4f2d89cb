"""Harness for tests of controllers: a server without a network, and a meter of the work per event loop turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from apiserver_stub.admission import AdmissionChain, AdmissionPlugin
from apiserver_stub.apimachinery import objects
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry
from apiserver_stub.storage import Outcome, Record
from apiserver_stub.verbs.admission import AdmissionRequest
from apiserver_stub.verbs.context import VerbContext
from tests.unit.apiserver_stub.authz.conftest import Memory

STEPS_IN_A_TURN = 600
"""Number of decoded objects and writes without yielding after which a controller is considered to spin."""


class Spinning(BaseException):
    """A controller blocks the event loop."""


class MeteredStore(Memory):
    """Store without delays that fails a controller that does not yield between updates."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0
        """Decoded objects and writes in the present turn of the event loop."""
        self.turns = 0
        """Turns of the event loop with any of them."""
        self.before_update: Callable[[str, str], None] | None = None

    def step(self) -> None:
        if not self.steps:
            try:
                asyncio.get_running_loop().call_soon(self._end_turn)
            except RuntimeError:  # Outside of an event loop, there is nothing to block.
                return
        self.steps += 1
        if self.steps > STEPS_IN_A_TURN:
            raise Spinning

    def _end_turn(self) -> None:
        self.steps = 0
        self.turns += 1

    async def update(self, name: str, key: str, decide: Callable[[Record | None], Outcome]) -> Record:
        self.step()
        if self.before_update is not None:
            self.before_update(name, key)
        return await super().update(name, key, decide)


REGISTRY = build_registry(parse([]))


def context(store: Memory, *plugins: AdmissionPlugin) -> VerbContext:
    """Return the dependencies of the verbs over *store*, with admission *plugins*."""
    return VerbContext(store, AdmissionChain(plugins))  # type: ignore[arg-type]


class KeepsMaps(AdmissionPlugin):
    """Admission plugin that rejects the deletion of config maps, and records the users who request it."""

    operations = ("DELETE",)

    def __init__(self) -> None:
        self.rejects, self.users = True, set[str]()

    async def validate(self, call: AdmissionRequest) -> None:
        if call.resource.plural == "configmaps":
            self.users.add(call.request.user.name)
            if self.rejects:
                raise call.forbidden("config maps are kept")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MeteredStore:
    found, decode = MeteredStore(), objects.decode

    def counted(data: bytes) -> Any:
        found.step()
        return decode(data)

    monkeypatch.setattr(objects, "decode", counted)
    return found


@asynccontextmanager
async def running(store: MeteredStore, *controllers: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run *controllers*; a controller that spins or exits fails the test."""
    tasks = [asyncio.ensure_future(controller) for controller in controllers]
    try:
        yield
        for task in tasks:
            assert not task.done(), task
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if not isinstance(result, asyncio.CancelledError):
            raise AssertionError(f"a controller ended: {result!r}") from (
                result if isinstance(result, BaseException) else None
            )


async def rest(store: MeteredStore, *, turns: int = 50, limit: int = 200_000) -> None:
    """Wait until the store has not been written for *turns* turns."""
    writes, quiet = store.writes, 0
    for _ in range(limit):
        await asyncio.sleep(0)
        quiet = quiet + 1 if store.writes == writes else 0
        writes = store.writes
        if quiet >= turns:
            return
    raise AssertionError("writes go on")
