"""Tests for lists and watches of one selection: consecutive errors, gaps and delays."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from nodeagent.contracts.api import PODS, WatchEvent, WatchType
from nodeagent.contracts.list_watch import follow
from nodeagent.errors import ApiError, ApiGone


class Listing:
    def __init__(self, version: str) -> None:
        self.items: list[Any] = []
        self.resource_version = version


class Api:
    """Server whose watches end as in *watches*: after some seconds, or with an error."""

    def __init__(self, clock: Any, *watches: float | Exception | WatchEvent[Any]) -> None:
        self.clock, self.watches, self.started = clock, list(watches), []
        self.lists: list[bool] = []
        self.versions: list[str] = []
        self.list_errors: list[ApiError] = []
        self.patience: set[float] = set()

    async def list(self, *_: Any, cached: bool, **__: Any) -> Listing:
        self.lists.append(cached)
        if self.list_errors:
            raise self.list_errors.pop(0)
        return Listing(str(len(self.lists)))

    async def watch(self, *_: Any, resource_version: str, patience_seconds: float, **__: Any) -> Any:
        self.patience.add(patience_seconds)
        self.started.append(self.clock.now())
        self.versions.append(resource_version)
        end = self.watches.pop(0) if self.watches else 1e9
        if isinstance(end, Exception):
            raise end
        if isinstance(end, WatchEvent):
            yield end
        else:
            await self.clock.sleep(end)


@contextlib.asynccontextmanager
async def following(api: Api, seconds: float, **arguments: Any) -> Any:
    changes: list[Any] = []
    task = asyncio.create_task(
        follow(api, PODS, "default", clock=api.clock, listed=lambda _: None, changed=changes.append, **arguments)
    )
    await api.clock.advance(seconds)
    yield changes
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_only_the_first_of_consecutive_errors_is_logged(clock: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    down = ApiError("down", transient=True)

    async with following(Api(clock, down, down, 5.0, down), 60):
        pass

    assert caplog.messages == ["Failed to watch", "Resumed watch", "Failed to watch"]


async def test_selection_is_listed_again_after_a_gap_or_a_lasting_error(clock: Any) -> None:
    api = Api(clock, ApiGone("too old"), ApiError("forbidden"), ApiError("down", transient=True), 2.0)

    async with following(api, 60):
        assert api.lists == [True, False, True]
        assert api.versions == ["1", "2", "3", "3", "3"]


@pytest.mark.parametrize(("kind", "reported"), [(WatchType.ADDED, 1), (WatchType.BOOKMARK, 0)])
async def test_watch_continues_at_the_version_of_its_last_event(clock: Any, kind: WatchType, reported: int) -> None:
    api = Api(clock, WatchEvent(kind, {"kind": "Pod"}, "7"))

    async with following(api, 10) as changes:
        assert (len(changes), api.versions) == (reported, ["1", "7"])


@pytest.mark.parametrize(("seconds", "is_delayed"), [(1.0, True), (1.5, False)])
async def test_quickly_ended_watch_is_followed_by_a_delay(clock: Any, seconds: float, is_delayed: bool) -> None:
    api = Api(clock, seconds)

    async with following(api, 10):
        first, second = api.started
        assert (second - first > seconds) == is_delayed


async def test_each_error_of_a_list_is_reported_and_no_error_of_a_watch(clock: Any) -> None:
    api, errors = Api(clock, ApiError("down", transient=True), ApiGone("too old")), list[str]()
    api.list_errors = [ApiError("forbidden"), ApiError("throttled", transient=True)]

    async with following(api, 60, failed=lambda error: errors.append(str(error))):
        pass

    assert errors == ["forbidden", "throttled"]


async def test_each_watch_has_the_patience(clock: Any) -> None:
    api = Api(clock, 2.0, ApiGone("too old"))

    async with following(api, 10, watch_patience_seconds=5.0):
        assert len(api.started) == 3
        assert api.patience == {5.0}
