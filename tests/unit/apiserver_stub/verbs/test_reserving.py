"""What a write takes is kept when it was made, given back when it was not, and left alone when nobody knows."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.storage import StoreRefused, StoreUnavailable
from apiserver_stub.verbs.reserving import reserve, reserving
from apiserver_stub.verbs.responses import Reply


class Taking:
    """A strategy, each of whose reservations notes what becomes of it."""

    def __init__(self) -> None:
        self.ends: list[list[str]] = []

    async def reserve(self, store: Any, new: Any, old: Any, *, dry_run: bool = False) -> Any:
        end: list[str] = []
        self.ends.append(end)

        async def note(what: str) -> None:
            end.append(what)

        return SimpleNamespace(keep=lambda: note("kept"), release=lambda: note("released"))


async def ends(error: BaseException | None, plans: int = 1) -> list[list[str]]:
    strategy = Taking()
    server: Any = SimpleNamespace(store=None)
    request: Any = SimpleNamespace(reservation=None, dry_run=False)
    resource: Any = SimpleNamespace(strategy=strategy)

    async def verb(*_: Any) -> Reply:
        for _ in range(plans):
            await reserve(server, request, resource, {}, None)
        if error is not None:
            raise error
        return Reply(200)

    if error is None:
        await reserving(verb, server, request, resource)
    else:
        with pytest.raises(type(error)):
            await reserving(verb, server, request, resource)
    return strategy.ends


async def test_what_a_write_took_is_kept() -> None:
    assert await ends(None) == [["kept"]]


async def test_a_write_that_takes_nothing_needs_nothing() -> None:
    assert await ends(None, plans=0) == []


@pytest.mark.parametrize("error", [ApiError(409, "Conflict", "lost"), StoreRefused("too large")])
async def test_what_a_refused_write_took_is_given_back(error: Exception) -> None:
    assert await ends(error) == [["released"]]


@pytest.mark.parametrize("error", [StoreUnavailable("no answer"), asyncio.CancelledError()])
async def test_what_a_write_took_stays_taken_while_it_may_have_been_made(error: BaseException) -> None:
    assert await ends(error) == [[]]


async def test_what_was_taken_for_an_earlier_plan_is_given_back() -> None:
    assert await ends(None, plans=2) == [["released"], ["kept"]]
