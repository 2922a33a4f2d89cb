"""Tests for reads of one object at a revision."""

from __future__ import annotations

import pytest

from apiserver_stub.verbs.context import VerbSettings
from tests.unit.apiserver_stub.api import Api, config_map
from tests.unit.apiserver_stub.authz.conftest import Memory

MAPS = "/api/v1/namespaces/default/configmaps"


class Delayed(Memory):
    """Store that lags behind its backend by *lag* revisions until it catches up; records the awaited revisions."""

    def __init__(self) -> None:
        super().__init__()
        self.lag, self.awaited, self.available = 0, list[int](), True

    def revision_of(self, name: str) -> int:
        return self.writes - self.lag

    async def catch_up(self, name: str, revision: int = 0) -> bool:
        self.awaited.append(revision)
        if self.available:
            self.lag = max(0, min(self.lag, self.writes - revision))
        return self.available and revision <= self.writes


@pytest.mark.parametrize(
    ("query", "lag", "awaited", "code"),
    [
        ("", 0, [0], 200),
        ("?resourceVersion=0", 1, [], 200),
        ("?resourceVersion=1", 1, [], 200),
        ("?resourceVersion=2", 1, [2], 200),
        ("?resourceVersion=2", 0, [], 200),
        ("?resourceVersion=3", 1, [3], 504),
    ],
)
async def test_read_waits_for_the_requested_revision(query: str, lag: int, awaited: list[int], code: int) -> None:
    store = Delayed()
    api = Api(store=store)
    for name in "ab":
        await api.create(MAPS, config_map(name))
    store.lag = lag

    assert (await api.get(f"{MAPS}/a{query}")).code == code
    assert store.awaited == awaited


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (f"{MAPS}/a", 503),
        (MAPS, 503),
        (f"{MAPS}?limit=1", 503),
        (f"{MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", 503),
        (f"{MAPS}/a?resourceVersion=0", 200),
        (f"{MAPS}/a?resourceVersion=1", 200),
        (f"{MAPS}?resourceVersion=0", 200),
        (f"{MAPS}/a?resourceVersion=2", 504),
        (f"{MAPS}?resourceVersion=2", 504),
    ],
)
async def test_reads_of_the_latest_state_fail_without_the_backend(request_: str, code: int) -> None:
    store = Delayed()
    api = Api(store=store, settings=VerbSettings(watch_lists=True))
    for name in "ab":
        await api.create(MAPS, config_map(name))
    store.lag, store.available = 1, False

    assert (await api.get(request_)).code == code
