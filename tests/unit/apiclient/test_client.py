"""The client asks in the configured form and rate, and turns what goes wrong into this project's errors."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from nodeagent.apiclient import Client
from nodeagent.apiclient.client import RATE_WAITS
from nodeagent.apiclient.connect import for_config
from nodeagent.apiclient.transport import ConnectionLost, Response
from nodeagent.base import apiproto, identity
from nodeagent.config.types import NodeAgentConfiguration
from nodeagent.contracts.api import EVENTS, NODES, PODS, RUNTIME_CLASSES, SERVICE_ACCOUNTS, PatchType, Resource
from nodeagent.errors import ApiConflict, ApiError, ApiGone, ApiNotFound, ApiUnavailable
from nodeagent.model.pod import Pod
from nodeagent.testing import FakeClock
from nodeagent.testing.transport import FakeTransport, json_answer, status_answer

PROTOBUF = "application/vnd.kubernetes.protobuf"


@pytest.fixture
def client(transport: FakeTransport, clock: FakeClock) -> Client:
    return Client(transport, clock)


def pod(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {"containers": [{"name": "c"}]}}


# --- where requests go ----------------------------------------------------------------------------------------


async def test_names_the_object_in_the_path(client: Client, transport: FakeTransport) -> None:
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


async def test_groups_carry_the_domain_in_force(client: Client, transport: FakeTransport) -> None:
    before = identity.current()
    identity.configure(identity.Identity(api_domain="example.com"))
    try:
        await client.create(EVENTS, {}, "default")
    finally:
        identity.configure(before)

    assert transport.requests[0].target == "/apis/events.example.com/v1/namespaces/default/events"
    assert msgspec.json.decode(transport.requests[0].body)["apiVersion"] == "events.example.com/v1"


async def test_deletes_with_grace_and_only_that_uid(client: Client, transport: FakeTransport) -> None:
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
async def test_speaks_protobuf_by_default(transport: FakeTransport, clock: FakeClock) -> None:
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
async def test_speaks_json_when_configured(transport: FakeTransport, clock: FakeClock) -> None:
    client = for_config(transport, NodeAgentConfiguration(content_type="application/json"), clock)

    await client.create(NODES, {"metadata": {"name": "n1"}})

    sent = transport.requests[0]
    assert (sent.headers["Content-Type"], sent.headers["Accept"]) == ("application/json", "application/json")
    assert msgspec.json.decode(sent.body) == {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}


async def test_a_kind_without_protobuf_form_goes_as_json(transport: FakeTransport, clock: FakeClock) -> None:
    client = Client(transport, clock, content_type=PROTOBUF)

    await client.create(Resource("example.org", "v1", "things", "Thing"), {"x": 1}, "default")

    assert transport.requests[0].headers["Content-Type"] == "application/json"


async def test_patches_are_json_of_their_own_kind(transport: FakeTransport, clock: FakeClock) -> None:
    client = Client(transport, clock, content_type=PROTOBUF)

    await client.patch(PODS, "web", {"status": {}}, "default", subresource="status")
    await client.patch(PODS, "web", [{"op": "remove", "path": "/x"}], "default", patch_type=PatchType.JSON)

    assert [request.headers["Content-Type"] for request in transport.requests] == [
        "application/strategic-merge-patch+json",
        "application/json-patch+json",
    ]
    assert transport.requests[0].target == "/api/v1/namespaces/default/pods/web/status"


async def test_protobuf_answers_become_structs(transport: FakeTransport, clock: FakeClock) -> None:
    client = Client(transport, clock, content_type=PROTOBUF)
    body = apiproto.encode({"apiVersion": "v1", "kind": "Pod", **pod("web")})
    transport.default = Response(200, {"content-type": PROTOBUF}, body)

    found = await client.get(PODS, "web", "default", into=Pod)

    assert found.spec.containers[0].name == "c"


# --- lists ----------------------------------------------------------------------------------------------------


async def test_reads_a_list_page_by_page(client: Client, transport: FakeTransport) -> None:
    transport.answers.extend(
        [
            json_answer({"metadata": {"resourceVersion": "7", "continue": "more"}, "items": [pod("a")]}),
            json_answer({"metadata": {"resourceVersion": "7"}, "items": [pod("b")]}),
        ]
    )

    listing = await client.list(PODS, into=Pod, field_selector="spec.nodeName=n1")

    assert [item.name for item in listing.items] == ["a", "b"]
    assert listing.resource_version == "7"
    assert [request.target for request in transport.requests] == [
        "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1&limit=500",
        "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1&limit=500&continue=more",
    ]


async def test_a_list_that_outlived_its_version_is_read_in_one_piece(client: Client, transport: FakeTransport) -> None:
    transport.answers.extend(
        [
            json_answer({"metadata": {"resourceVersion": "7", "continue": "more"}, "items": [pod("a")]}),
            status_answer(410, "Expired"),
            json_answer({"metadata": {"resourceVersion": "9"}, "items": [pod("b")]}),
        ]
    )

    listing = await client.list(PODS, into=Pod)

    assert ([item.name for item in listing.items], listing.resource_version) == (["b"], "9")
    assert transport.requests[-1].target == "/api/v1/pods"


async def test_one_unreadable_item_does_not_hide_the_others(client: Client, transport: FakeTransport) -> None:
    broken = {"metadata": {"name": 7}}
    transport.default = json_answer({"metadata": {"resourceVersion": "7"}, "items": [broken, pod("b")]})

    listing = await client.list(PODS, into=Pod)

    assert [item.name for item in listing.items] == ["b"]


async def test_plain_items_say_what_they_are(client: Client, transport: FakeTransport) -> None:
    transport.default = json_answer({"items": [pod("a")]})

    listing = await client.list(PODS, into=dict)

    assert (listing.items[0]["apiVersion"], listing.items[0]["kind"]) == ("v1", "Pod")


# --- failures -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "kind", "reason", "transient"),
    [
        (status_answer(404, "NotFound", 'pods "web" not found'), ApiNotFound, "NotFound", False),
        (status_answer(409, "AlreadyExists"), ApiConflict, "AlreadyExists", False),
        (status_answer(410, "Expired"), ApiGone, "Expired", False),
        (status_answer(403, "Forbidden"), ApiError, "Forbidden", False),
        (status_answer(500), ApiError, "ApiError", True),
        (Response(503, {"content-type": "text/html"}, b"<html>"), ApiUnavailable, "ApiUnavailable", True),
        (TimeoutError(), ApiUnavailable, "ApiUnavailable", True),
    ],
)
async def test_says_what_failed(
    client: Client, transport: FakeTransport, answer: Any, kind: type[ApiError], reason: str, transient: bool
) -> None:
    transport.answers.append(answer)

    with pytest.raises(ApiError, match=r"^patch pods/status default/web: ") as raised:
        await client.patch(PODS, "web", {}, "default", subresource="status")

    assert (type(raised.value), raised.value.reason, raised.value.transient) == (kind, reason, transient)


async def test_a_status_in_protobuf_is_understood(transport: FakeTransport, clock: FakeClock) -> None:
    client = Client(transport, clock, content_type=PROTOBUF)
    status = {"apiVersion": "v1", "kind": "Status", "reason": "Conflict", "message": "changed", "code": 409}
    transport.default = Response(409, {"content-type": PROTOBUF}, apiproto.encode(status))

    with pytest.raises(ApiConflict, match="changed"):
        await client.get(PODS, "web", "default", into=dict)


async def test_long_foreign_text_is_cut(client: Client, transport: FakeTransport) -> None:
    transport.default = status_answer(400, message="x" * 100_000)

    with pytest.raises(ApiError) as raised:
        await client.get(PODS, "web", "default", into=dict)

    assert len(str(raised.value)) < 1200


async def test_repeats_a_read_once_after_a_lost_connection(client: Client, transport: FakeTransport) -> None:
    transport.answers.append(ConnectionLost("reset"))

    await client.get(PODS, "web", "default", into=dict)

    assert len(transport.requests) == 2


async def test_never_repeats_a_create(client: Client, transport: FakeTransport) -> None:
    transport.answers.append(ConnectionLost("reset"))

    with pytest.raises(ApiUnavailable, match="reset"):
        await client.create(PODS, pod("web"), "default")

    assert len(transport.requests) == 1


async def test_comes_back_when_the_server_says(client: Client, transport: FakeTransport, clock: FakeClock) -> None:
    transport.answers.append(status_answer(429, headers={"retry-after": "3"}))
    call = asyncio.create_task(client.create(PODS, pod("web"), "default"))

    await clock.advance(2.9)
    early = len(transport.requests)
    await clock.advance(0.2)
    await call

    assert (early, len(transport.requests)) == (1, 2)


async def test_gives_up_on_a_server_that_keeps_sending_it_away(
    client: Client, transport: FakeTransport, clock: FakeClock
) -> None:
    transport.default = status_answer(429, headers={"retry-after": "1"})
    call = asyncio.create_task(client.get(PODS, "web", "default", into=dict))

    await clock.advance(60)

    assert isinstance(call.exception(), ApiError)
    assert len(transport.requests) == 5


# --- rate -----------------------------------------------------------------------------------------------------


async def ask(client: Client, times: int) -> None:
    for _ in range(times):
        await client.get(NODES, "n1", into=dict)


@pytest.mark.row("config.platformAPIQPS", "config.platformAPIBurst")
async def test_waits_for_its_rate(transport: FakeTransport, clock: FakeClock) -> None:
    client = for_config(transport, NodeAgentConfiguration(platform_api_qps=2, platform_api_burst=3), clock)
    asking = asyncio.create_task(ask(client, 6))

    await clock.advance(0.1)
    at_once = len(transport.requests)
    await clock.advance(1)
    later = len(transport.requests)
    await clock.advance(1)
    await asking

    assert (at_once, later) == (3, 5)


async def test_another_rate_does_not_share_the_limit(transport: FakeTransport, clock: FakeClock) -> None:
    client = Client(transport, clock, qps=1, burst=1)
    unlimited = client.with_rate(0, 0)

    await ask(unlimited, 50)

    assert len(transport.requests) == 50
    await client.close()
    assert transport.closed


async def test_the_wait_for_the_rate_limit_is_counted(transport: FakeTransport, clock: FakeClock) -> None:
    client = Client(transport, clock, qps=1, burst=1)
    before = RATE_WAITS.count("GET", transport.host)
    tasks = [asyncio.create_task(client.get(PODS, name, "default", into=dict)) for name in ("a", "b")]

    await clock.advance(2)
    await asyncio.gather(*tasks)

    assert RATE_WAITS.count("GET", transport.host) == before + 2
