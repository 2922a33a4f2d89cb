"""Tests for watches: events, frames split across chunks, errors."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from nodeagent.apiclient import Client
from nodeagent.apiclient.transport import ConnectionLost, Response
from nodeagent.base import apiproto
from nodeagent.contracts.api import PODS, WatchEvent, WatchType
from nodeagent.errors import ApiError, ApiGone, ApiUnavailable
from nodeagent.model.pod import Pod
from nodeagent.testing import FakeClock
from nodeagent.testing.transport import FakeTransport, status_response

PROTOBUF = "application/vnd.kubernetes.protobuf"
GONE = {"kind": "Status", "apiVersion": "v1", "code": 410, "reason": "Expired", "message": "too old"}


@pytest.fixture
def client(transport: FakeTransport, clock: FakeClock) -> Client:
    return Client(transport, clock)


def frame(kind: str, obj: Any) -> bytes:
    return msgspec.json.encode({"type": kind, "object": obj}) + b"\n"


def pod(name: str, version: int) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "uid": name, "resourceVersion": str(version)}}


async def collect(client: Client) -> list[WatchEvent[Pod]]:
    return [event async for event in client.watch(PODS, into=Pod, resource_version="5", field_selector="a=b")]


def short(events: list[WatchEvent[Pod]]) -> list[tuple[str, str, str]]:
    return [(event.type, event.object.name, event.resource_version) for event in events]


@pytest.mark.parametrize("size", [1, 7, 10_000])
async def test_events_are_complete_whatever_the_chunk_size(client: Client, transport: FakeTransport, size: int) -> None:
    data = frame("ADDED", pod("a", 6)) + frame("MODIFIED", pod("a", 7)) + frame("DELETED", pod("a", 8))
    transport.pieces = [data[start : start + size] for start in range(0, len(data), size)]

    assert short(await collect(client)) == [("ADDED", "a", "6"), ("MODIFIED", "a", "7"), ("DELETED", "a", "8")]


async def test_protobuf_frames_are_decoded(transport: FakeTransport, clock: FakeClock) -> None:
    client = Client(transport, clock, content_type=PROTOBUF)
    transport.stream_head = Response(200, {"content-type": f"{PROTOBUF};stream=watch"})
    transport.pieces = [apiproto.encode_watch_frame("ADDED", apiproto.encode(pod("a", 6)))]

    assert short(await collect(client)) == [("ADDED", "a", "6")]
    assert transport.requests[0].headers["Accept"] == f"{PROTOBUF};stream=watch,application/json"


async def test_watch_requests_bookmarks_and_a_timeout(client: Client, transport: FakeTransport) -> None:
    await collect(client)

    path, _, query = transport.requests[0].target.partition("?")
    parameters = dict(part.split("=", 1) for part in query.split("&"))
    assert path == "/api/v1/pods"
    assert parameters["watch"] == "1"
    assert (parameters["resourceVersion"], parameters["allowWatchBookmarks"]) == ("5", "true")
    assert 300 <= int(parameters["timeoutSeconds"]) <= 600


async def test_bookmark_may_have_null_fields(client: Client, transport: FakeTransport) -> None:
    bookmark = {"metadata": {"resourceVersion": "9", "creationTimestamp": None}, "spec": {"containers": None}}
    transport.pieces = [frame("BOOKMARK", bookmark)]

    assert short(await collect(client)) == [("BOOKMARK", "", "9")]


async def test_invalid_object_is_skipped(client: Client, transport: FakeTransport) -> None:
    broken = {"metadata": {"name": 7, "resourceVersion": "6"}}
    transport.pieces = [frame("ADDED", broken), frame("STRANGE", {}), frame("ADDED", pod("b", 7))]

    assert [event.type for event in await collect(client)] == [WatchType.ADDED]


async def test_error_event_ends_the_watch(client: Client, transport: FakeTransport) -> None:
    transport.pieces = [frame("ERROR", GONE)]

    with pytest.raises(ApiGone, match="too old"):
        await collect(client)


async def test_version_that_the_server_does_not_have_ends_the_watch(client: Client, transport: FakeTransport) -> None:
    message = "Timeout: Too large resource version: 9, current: 1"
    transport.pieces = [frame("ERROR", {**GONE, "code": 504, "reason": "Timeout", "message": message})]

    with pytest.raises(ApiGone, match="Too large"):
        await collect(client)


async def test_protobuf_error_event_ends_the_watch(transport: FakeTransport, clock: FakeClock) -> None:
    client = Client(transport, clock, content_type=PROTOBUF)
    transport.stream_head = Response(200, {"content-type": f"{PROTOBUF};stream=watch"})
    transport.pieces = [apiproto.encode_watch_frame("ERROR", apiproto.encode(GONE))]

    with pytest.raises(ApiGone, match="too old"):
        await collect(client)


async def test_error_response_to_a_watch_is_raised(client: Client, transport: FakeTransport) -> None:
    transport.stream_head = status_response(410, "Expired")

    with pytest.raises(ApiGone):
        await collect(client)


@pytest.mark.parametrize("error", [TimeoutError(), ConnectionLost("reset")])
async def test_lost_stream_is_a_transient_error(client: Client, transport: FakeTransport, error: Exception) -> None:
    transport.pieces = [frame("ADDED", pod("a", 6)), error]

    with pytest.raises(ApiUnavailable):
        await collect(client)


async def test_malformed_stream_is_a_transient_api_error(client: Client, transport: FakeTransport) -> None:
    transport.pieces = [b"garbage\n"]

    with pytest.raises(ApiError, match="invalid watch stream") as raised:
        await collect(client)

    assert raised.value.transient
