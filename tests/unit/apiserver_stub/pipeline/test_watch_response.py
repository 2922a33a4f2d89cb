"""Tests for the responses to watches: start, protocol, metrics and end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from apiserver_stub.telemetry.exposition import Choice, Page
from apiserver_stub.verbs.context import VerbSettings
from tests.unit.apiserver_stub.api import Api, config_map
from tests.unit.apiserver_stub.authz.conftest import Memory
from tests.unit.apiserver_stub.transport.test_websocket import HANDSHAKE

MAPS = "/api/v1/namespaces/default/configmaps"


class Shared(Memory):
    """Store that another server writes to as well."""

    def __init__(self) -> None:
        super().__init__()
        self.awaited: list[int] = []

    async def catch_up(self, name: str, revision: int = 0) -> bool:
        self.awaited.append(revision)
        return False


@pytest.mark.parametrize(
    ("version", "awaited"),
    [
        ("", []),
        ("0", []),
        ("1", []),
        ("2", [2]),
        ("9" * 19, [int("9" * 19)]),
        ("9" * 20, []),
        ("x", []),
        ("\u0669", []),
    ],
)
async def test_watch_from_a_later_version_waits_for_it(version: str, awaited: list[int]) -> None:
    store = Shared()
    api = Api(store=store)
    await api.create(MAPS, config_map("a"))
    store.awaited.clear()

    await api.watch(f"{MAPS}?watch=1&resourceVersion={version}")

    assert store.awaited == awaited


class Lagging(Memory):
    """Store whose backend has five revisions more."""

    async def is_assigned(self, name: str, revision: int) -> bool:
        return revision <= self.writes + 5


async def test_watch_from_a_version_of_another_server_sends_only_later_changes() -> None:
    api = Api(store=Lagging())
    await api.create(MAPS, config_map("a"))
    creations = [("POST", MAPS, config_map(name)) for name in "bcde"]

    response = await api.watch(f"{MAPS}?watch=1&resourceVersion=3", *creations)

    assert [(kind, found["metadata"]["name"]) for kind, found in response.events] == [("ADDED", "d"), ("ADDED", "e")]


@pytest.mark.parametrize(
    "query", ["resourceVersion=7", "resourceVersion=3&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"]
)
async def test_watch_that_cannot_start_at_its_version_fails(query: str) -> None:
    api = Api(store=Lagging(), settings=VerbSettings(watch_lists=True))
    await api.create(MAPS, config_map("a"))

    response = await api.watch(f"{MAPS}?watch=1&{query}", ("POST", MAPS, config_map("b")))

    ((kind, status),) = response.events
    assert (kind, status["code"], status["reason"]) == ("ERROR", 504, "Timeout")
    assert status["message"] == f"Timeout: Too large resource version: {query[16]}, current: 1"


async def test_kinds_without_watch_are_not_served() -> None:
    response = await Api().get("/api/v1/componentstatuses?watch=1")

    assert response.code == 405


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, 200),
        ({"Upgrade": "h2c"}, 200),
        (HANDSHAKE, 101),
        ({**HANDSHAKE, "Upgrade": "WebSocket"}, 101),
        ({**HANDSHAKE, "Sec-WebSocket-Key": "x"}, 400),
    ],
)
async def test_watch_may_be_a_websocket(headers: dict[str, str], code: int) -> None:
    api = Api()
    http = api.http("GET", f"{MAPS}?watch=1")
    http.headers = http.headers.copy()  # type: ignore[assignment]
    http.headers.update(headers)  # type: ignore[attr-defined]
    task = asyncio.ensure_future(api.handler.handle(http))
    for _ in range(5):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert http.status == code


async def test_stop_of_the_server_ends_the_watch_and_counts_it() -> None:
    api = Api()
    http = api.http("GET", f"{MAPS}?watch=1")
    task = asyncio.ensure_future(api.handler.handle(http))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    during = api.metrics.watches
    api.lifecycle.stopping.set()
    await task

    page = Page(Choice())
    api.metrics.show_on(page)
    assert (during, api.metrics.watches, http.completed) == (1, 0, True)
    assert 'apiserver_request_total{dry_run="",verb="WATCH"' in page.text()[0].decode()


async def test_watch_that_fails_is_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    for error, messages in ((ValueError("bug"), ["Watch failed"]), (ConnectionResetError(), [])):
        api, caught = Api(), error

        async def fail(watch: Any, response: Any, pace: Any, error: Exception = caught) -> None:
            raise error

        monkeypatch.setattr("apiserver_stub.pipeline.watch_response._send_frames", fail)
        caplog.clear()
        await api.get(f"{MAPS}?watch=1")
        assert [record.message for record in caplog.records if record.levelname == "ERROR"] == messages, error
