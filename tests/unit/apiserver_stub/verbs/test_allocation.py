"""Tests for allocations of writes: kept after success, released after failure."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.storage import StoreRejected, StoreUnavailable
from apiserver_stub.verbs.allocation import reserve, with_allocations
from apiserver_stub.verbs.responses import Reply


class Taking:
    """Strategy that records the outcome of its reservations."""

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
        await with_allocations(verb, server, request, resource)
    else:
        with pytest.raises(type(error)):
            await with_allocations(verb, server, request, resource)
    return strategy.ends


async def test_allocation_of_a_successful_write_is_kept() -> None:
    assert await ends(None) == [["kept"]]


async def test_write_without_allocation_reserves_nothing() -> None:
    assert await ends(None, plans=0) == []


@pytest.mark.parametrize("error", [ApiError(409, "Conflict", "lost"), StoreRejected("too large")])
async def test_allocation_of_a_rejected_write_is_released(error: Exception) -> None:
    assert await ends(error) == [["released"]]


@pytest.mark.parametrize("error", [StoreUnavailable("no answer"), asyncio.CancelledError()])
async def test_allocation_of_a_write_with_unknown_outcome_is_kept(error: BaseException) -> None:
    assert await ends(error) == [[]]


async def test_allocation_of_a_superseded_plan_is_released() -> None:
    assert await ends(None, plans=2) == [["released"], ["kept"]]
