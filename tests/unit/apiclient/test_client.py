"""Tests for the API server client: paths, content types, pages, errors, rate limits."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from nodeagent.apiclient import Client
from nodeagent.apiclient.client import RATE_WAITS
from nodeagent.apiclient.connect import for_config
from nodeagent.apiclient.transport import ConnectionLost, Response
from nodeagent.base import apiproto, identity
from nodeagent.contracts.api import (
    EVENTS,
    NODES,
    PODS,
    RUNTIME_CLASSES,
    SERVICE_ACCOUNTS,
    ApiProbe,
    PatchType,
    Resource,
)
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.errors import ApiConflict, ApiError, ApiGone, ApiNotFound, ApiUnavailable
from nodeagent.model.pod import Pod
from nodeagent.testing import FakeClock
from nodeagent.testing.transport import FakeTransport, json_response, status_response

PROTOBUF = "application/vnd.kubernetes.protobuf"


@pytest.fixture
def client(transport: FakeTransport, clock: FakeClock) -> Client:
    return Client(transport, clock)


def pod(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {"containers": [{"name": "c"}]}}


# --- request paths ---------------------------------------------------------------------------------------------


async def test_path_names_the_object(client: Client, transport: FakeTransport) -> None:
    await client.get(PODS, "web", "default", into=dict)
    await client.get(NODES, "n1", into=dict, cached=True)
    await client.get(RUNTIME_CLASSES, "a/b", into=dict)
    await client.get(Resource("policy", "v1", "evictions", "Eviction", bare_group=True), "e", "x", into=dict)
    await client.create(SERVICE_ACCOUNTS, {}, "default", subresource="token", name="sa")

    assert [request.target for request in transport.requests] == [
        "/api/v1/namespaces/default/pods/web",
        "/api/v1/nodes/n1?resourceVersion=0",
        "/apis/node.k8s.io/v1/runtimeclasses/a%2Fb",
        "/apis/policy/v1/namespaces/x/evictions/e",
        "/api/v1/namespaces/default/serviceaccounts/sa/token",
    ]


async def test_groups_have_the_effective_api_domain(client: Client, transport: FakeTransport) -> None:
    before = identity.current()
    identity.configure(identity.Identity(api_domain="example.com"))
    try:
        await client.create(EVENTS, {}, "default")
    finally:
        identity.configure(before)

    assert transport.requests[0].target == "/apis/events.example.com/v1/namespaces/default/events"
    assert msgspec.json.decode(transport.requests[0].body)["apiVersion"] == "events.example.com/v1"


async def test_delete_sends_grace_period_and_uid_precondition(client: Client, transport: FakeTransport) -> None:
    await client.delete(PODS, "web", "default", grace_seconds=0, uid="u1")

    assert transport.requests[0].method == "DELETE"
    assert msgspec.json.decode(transport.requests[0].body) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "u1"},
    }


# --- content types --------------------------------------------------------------------------------------------


@pytest.mark.row("config.contentType")
async def test_protobuf_is_the_default_content_type(transport: FakeTransport, clock: FakeClock) -> None:
    client = for_config(transport, NodeAgentConfiguration(), clock)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    transport.default = Response(201, {"content-type": PROTOBUF}, apiproto.encode(node))

    created = await client.create(NODES, {"metadata": {"name": "n1"}})

    sent = transport.requests[0]
    assert sent.headers["Content-Type"] == PROTOBUF
    assert sent.headers["Accept"] == f"{PROTOBUF},application/json"
    assert apiproto.decode(sent.body)["metadata"]["name"] == "n1"
    assert created["metadata"]["name"] == "n1"


@pytest.mark.row("config.contentType")
async def test_json_is_used_when_configured(transport: FakeTransport, clock: FakeClock) -> None:
    client = for_config(transport, NodeAgentConfiguration(content_type="application/json"), clock)

    await client.create(NODES, {"metadata": {"name": "n1"}})

    sent = transport.requests[0]
    assert (sent.headers["Content-Type"], sent.headers["Accept"]) == ("application/json", "application/json")
    assert msgspec.json.decode(sent.body) == {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}


async def test_kind_without_protobuf_form_is_sent_and_accepted_as_json(
    transport: FakeTransport, clock: FakeClock
) -> None:
    client = Client(transport, clock, content_type=PROTOBUF)

    await client.create(Resource("example.org", "v1", "things", "Thing"), {"x": 1}, "default")

    headers = transport.requests[0].headers
    assert (headers["Content-Type"], headers["Accept"]) == ("application/json", "application/json")


async def test_patch_has_the_media_type_of_its_patch_type(transport: FakeTransport, clock: FakeClock) -> None:
    client = Client(transport, clock, content_type=PROTOBUF)

    await client.patch(PODS, "web", {"status": {}}, "default", subresource="status")
    await client.patch(PODS, "web", [{"op": "remove", "path": "/x"}], "default", patch_type=PatchType.JSON)

    assert [request.headers["Content-Type"] for request in transport.requests] == [
        "application/strategic-merge-patch+json",
        "application/json-patch+json",
    ]
    assert transport.requests[0].target == "/api/v1/namespaces/default/pods/web/status"


async def test_protobuf_response_is_converted_to_a_struct(transport: FakeTransport, clock: FakeClock) -> None:
    client = Client(transport, clock, content_type=PROTOBUF)
    body = apiproto.encode({"apiVersion": "v1", "kind": "Pod", **pod("web")})
    transport.default = Response(200, {"content-type": PROTOBUF}, body)

    found = await client.get(PODS, "web", "default", into=Pod)

    assert found.spec.containers[0].name == "c"


# --- lists ----------------------------------------------------------------------------------------------------


async def test_list_is_read_in_pages(client: Client, transport: FakeTransport) -> None:
    transport.responses.extend(
        [
            json_response({"metadata": {"resourceVersion": "7", "continue": "more"}, "items": [pod("a")]}),
            json_response({"metadata": {"resourceVersion": "7"}, "items": [pod("b")]}),
        ]
    )

    listing = await client.list(PODS, into=Pod, field_selector="spec.nodeName=n1")

    assert [item.name for item in listing.items] == ["a", "b"]
    assert listing.resource_version == "7"
    assert [request.target for request in transport.requests] == [
        "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1&limit=500",
        "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1&limit=500&continue=more",
    ]


async def test_list_without_pages_follows_an_expired_continue_token(client: Client, transport: FakeTransport) -> None:
    transport.responses.extend(
        [
            json_response({"metadata": {"resourceVersion": "7", "continue": "more"}, "items": [pod("a")]}),
            status_response(410, "Expired"),
            json_response({"metadata": {"resourceVersion": "9"}, "items": [pod("b")]}),
        ]
    )

    listing = await client.list(PODS, into=Pod)

    assert ([item.name for item in listing.items], listing.resource_version) == (["b"], "9")
    assert transport.requests[-1].target == "/api/v1/pods"


async def test_invalid_item_of_a_list_is_skipped(client: Client, transport: FakeTransport) -> None:
    broken = {"metadata": {"name": 7}}
    transport.default = json_response({"metadata": {"resourceVersion": "7"}, "items": [broken, pod("b")]})

    listing = await client.list(PODS, into=Pod)

    assert [item.name for item in listing.items] == ["b"]


async def test_plain_items_have_api_version_and_kind(client: Client, transport: FakeTransport) -> None:
    transport.default = json_response({"items": [pod("a")]})

    listing = await client.list(PODS, into=dict)

    assert (listing.items[0]["apiVersion"], listing.items[0]["kind"]) == ("v1", "Pod")


# --- failures -------------------------------------------------------------------------------------------------

TOO_LARGE = "Timeout: Too large resource version: 9, current: 1"


@pytest.mark.parametrize(
    ("response", "kind", "reason", "transient"),
    [
        (status_response(404, "NotFound", 'pods "web" not found'), ApiNotFound, "NotFound", False),
        (status_response(409, "AlreadyExists"), ApiConflict, "AlreadyExists", False),
        (status_response(410, "Expired"), ApiGone, "Expired", False),
        (status_response(504, "Timeout", TOO_LARGE), ApiGone, "Timeout", False),
        (status_response(504, "Timeout", "slow"), ApiUnavailable, "Timeout", True),
        (status_response(500, "", TOO_LARGE), ApiError, "ApiError", True),
        (status_response(403, "Forbidden"), ApiError, "Forbidden", False),
        (status_response(500), ApiError, "ApiError", True),
        (Response(503, {"content-type": "text/html"}, b"<html>"), ApiUnavailable, "ApiUnavailable", True),
        (TimeoutError(), ApiUnavailable, "ApiUnavailable", True),
    ],
)
async def test_error_names_the_request_and_has_its_type(
    client: Client, transport: FakeTransport, response: Any, kind: type[ApiError], reason: str, transient: bool
) -> None:
    transport.responses.append(response)

    with pytest.raises(ApiError, match=r"^patch pods/status default/web: ") as raised:
        await client.patch(PODS, "web", {}, "default", subresource="status")

    assert (type(raised.value), raised.value.reason, raised.value.transient) == (kind, reason, transient)


async def test_protobuf_status_is_decoded(transport: FakeTransport, clock: FakeClock) -> None:
    client = Client(transport, clock, content_type=PROTOBUF)
    status = {"apiVersion": "v1", "kind": "Status", "reason": "Conflict", "message": "changed", "code": 409}
    transport.default = Response(409, {"content-type": PROTOBUF}, apiproto.encode(status))

    with pytest.raises(ApiConflict, match="changed"):
        await client.get(PODS, "web", "default", into=dict)


async def test_long_error_text_is_truncated(client: Client, transport: FakeTransport) -> None:
    transport.default = status_response(400, message="x" * 100_000)

    with pytest.raises(ApiError) as raised:
        await client.get(PODS, "web", "default", into=dict)

    assert len(str(raised.value)) < 1200


async def test_get_is_retried_once_after_a_lost_connection(client: Client, transport: FakeTransport) -> None:
    transport.responses.append(ConnectionLost("reset"))

    await client.get(PODS, "web", "default", into=dict)

    assert len(transport.requests) == 2


@pytest.mark.parametrize(
    ("name", "metadata", "text"),
    [
        ("sa", {}, "create serviceaccounts/token default/sa"),
        ("", {"name": "own"}, "create serviceaccounts/token default/own"),
        ("sa", {"name": "own"}, "create serviceaccounts/token default/sa"),
    ],
)
async def test_failed_creation_names_the_object(
    client: Client, transport: FakeTransport, name: str, metadata: dict[str, str], text: str
) -> None:
    transport.responses.append(ConnectionLost("reset"))
    with pytest.raises(ApiUnavailable) as raised:
        await client.create(SERVICE_ACCOUNTS, {"metadata": metadata}, "default", subresource="token", name=name)
    assert str(raised.value).startswith(text)


async def test_create_is_not_retried_after_a_lost_connection(client: Client, transport: FakeTransport) -> None:
    transport.responses.append(ConnectionLost("reset"))

    with pytest.raises(ApiUnavailable, match="reset"):
        await client.create(PODS, pod("web"), "default")

    assert len(transport.requests) == 1


async def test_request_is_retried_after_the_time_in_retry_after(
    client: Client, transport: FakeTransport, clock: FakeClock
) -> None:
    transport.responses.append(status_response(429, headers={"retry-after": "3"}))
    call = asyncio.create_task(client.create(PODS, pod("web"), "default"))

    await clock.advance(2.9)
    early = len(transport.requests)
    await clock.advance(0.2)
    await call

    assert (early, len(transport.requests)) == (1, 2)


async def test_request_fails_after_five_retry_after_responses(
    client: Client, transport: FakeTransport, clock: FakeClock
) -> None:
    transport.default = status_response(429, headers={"retry-after": "1"})
    call = asyncio.create_task(client.get(PODS, "web", "default", into=dict))

    await clock.advance(60)

    assert isinstance(call.exception(), ApiError)
    assert len(transport.requests) == 5


# --- rate -----------------------------------------------------------------------------------------------------


async def send_requests(client: Client, times: int) -> None:
    for _ in range(times):
        await client.get(NODES, "n1", into=dict)


@pytest.mark.row("config.platformAPIQPS", "config.platformAPIBurst")
async def test_requests_wait_for_the_rate_limit(transport: FakeTransport, clock: FakeClock) -> None:
    client = for_config(transport, NodeAgentConfiguration(platform_api_qps=2, platform_api_burst=3), clock)
    sending = asyncio.create_task(send_requests(client, 6))

    await clock.advance(0.1)
    immediately = len(transport.requests)
    await clock.advance(1)
    later = len(transport.requests)
    await clock.advance(1)
    await sending

    assert (immediately, later) == (3, 5)


async def test_patient_watch_lets_other_requests_pass(transport: FakeTransport, clock: FakeClock) -> None:
    client = Client(transport, clock, qps=1, burst=1)
    await send_requests(client, 1)
    watch = client.watch(PODS, "default", into=dict, resource_version="1", patience_seconds=5)
    watching = asyncio.create_task(anext(aiter(watch), None))
    await clock.settle()
    sending = asyncio.create_task(send_requests(client, 2))

    await clock.advance(2)
    before = [request.target for request in transport.requests]
    await sending
    await clock.advance(1)

    assert [target.partition("?")[0] for target in before] == ["/api/v1/nodes/n1"] * 3
    assert "watch=1" in transport.requests[3].target
    await watching


async def test_client_with_another_rate_has_a_separate_limit(transport: FakeTransport, clock: FakeClock) -> None:
    client = Client(transport, clock, qps=1, burst=1)
    unlimited = client.with_rate(0, 0)

    await send_requests(unlimited, 50)

    assert len(transport.requests) == 50
    await client.close()
    assert transport.closed


async def test_rate_limiter_latency_is_observed(transport: FakeTransport, clock: FakeClock) -> None:
    client = Client(transport, clock, qps=1, burst=1)
    before = RATE_WAITS.count("GET", transport.host)
    tasks = [asyncio.create_task(client.get(PODS, name, "default", into=dict)) for name in ("a", "b")]

    await clock.advance(2)
    await asyncio.gather(*tasks)

    assert RATE_WAITS.count("GET", transport.host) == before + 2


async def test_long_wait_for_the_rate_limit_is_logged(
    transport: FakeTransport, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    client = Client(transport, clock, qps=0.5, burst=1)
    sending = asyncio.create_task(send_requests(client, 2))

    await clock.advance(2)
    await sending

    text = "Waited for 2s due to client-side throttling, not priority and fairness, request: GET:"
    assert [message for message in caplog.messages if "Waited" in message] == [
        f"{text}{transport.host}/api/v1/nodes/n1"
    ]


async def test_retry_after_response_is_logged(
    transport: FakeTransport, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    transport.responses.append(status_response(429, headers={"retry-after": "1"}))
    sending = asyncio.create_task(send_requests(Client(transport, clock), 1))

    await clock.advance(1)
    await sending

    assert f"Got a Retry-After 1s response for attempt 1 to {transport.host}/api/v1/nodes/n1" in caplog.messages


# --- probe -----------------------------------------------------------------------------------------------------


async def test_probe_returns_status_and_date_of_any_response(client: Client, transport: FakeTransport) -> None:
    transport.responses.append(Response(503, {"date": "Mon, 01 Jan 2024 03:00:00 GMT"}))
    transport.responses.append(Response(200, {"date": "today"}))

    assert await client.probe(8) == ApiProbe(503, datetime(2024, 1, 1, 3, tzinfo=UTC))
    assert await client.probe(8) == ApiProbe(200, None)
    assert [request.target for request in transport.requests] == ["/version", "/version"]


@pytest.mark.parametrize("error", [TimeoutError(), ConnectionLost("connection refused")])
async def test_probe_without_response_fails(client: Client, transport: FakeTransport, error: Exception) -> None:
    transport.responses.append(error)

    with pytest.raises(ApiUnavailable, match=r"no response within 8 s|connection refused"):
        await client.probe(8)
