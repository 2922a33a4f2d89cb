"""Who may do what at the secured port: every way of showing who one is, every verb, every kind of path."""

from __future__ import annotations

import asyncio
import ssl

import aiohttp
import pytest
from aiohttp import web

from nodeagent import hookimpl
from nodeagent.base.tls import generate_ca
from nodeagent.contracts.configuration import (
    Authentication,
    Authorization,
    WebhookAuthentication,
    WebhookAuthorization,
    seconds,
)
from nodeagent.contracts.server import Route
from nodeagent.errors import ApiUnavailable
from tests.integration.server.conftest import (
    ALWAYS_ALLOW,
    RIGHTS,
    authentication,
    protocol_token,
    serving,
)

WHO = {
    "admin": {"token": "admin-token"},
    "viewer": {"token": "viewer-token"},
    "scraper": {"token": "scraper-token"},
    "stranger": {"token": "made-up"},
    "nobody": {},
}
# What each request needs; the last two are for paths that do not exist.
NEEDS = {
    ("GET", "/healthz"): ("get", "proxy"),
    ("GET", "/metrics"): ("get", "metrics"),
    ("GET", "/metrics/resource"): ("get", "metrics"),
    ("GET", "/metrics/probes"): ("get", "metrics"),
    ("GET", "/metrics/slis"): ("get", "metrics"),
    ("GET", "/stats/summary"): ("get", "stats"),
    ("POST", "/stats/summary"): ("create", "stats"),
    ("GET", "/logs/"): ("get", "log"),
    ("GET", "/pods"): ("get", "proxy"),
    ("GET", "/configz"): ("get", "proxy"),
    ("GET", "/containerLogs/default/web/main"): ("get", "proxy"),
    ("GET", "/exec/default/web/main"): ("create", "proxy"),
    ("POST", "/exec/default/web/main"): ("create", "proxy"),
    ("GET", "/attach/default/web/main"): ("create", "proxy"),
    ("POST", "/attach/default/web/main"): ("create", "proxy"),
    ("GET", "/portForward/default/web"): ("create", "proxy"),
    ("POST", "/portForward/default/web"): ("create", "proxy"),
    ("POST", "/run/default/web/main"): ("create", "proxy"),
    ("PUT", "/debug/flags/v"): ("update", "proxy"),
    ("GET", "/debug/pprof/cmdline"): ("get", "proxy"),
    ("GET", "/no/such/path"): ("get", "proxy"),
    ("DELETE", "/pods"): ("delete", "proxy"),
}


@pytest.mark.row(
    "config.authentication", "config.authorization", "type.NodeAgentAuthorization.mode", "config.enableServer"
)
async def test_each_request_is_let_through_by_the_right_it_needs_and_by_no_other(pki, tmp_path):
    wrong = {}
    async with serving(pki, tmp_path) as node:
        for who, shown in WHO.items():
            for (method, path), need in NEEDS.items():
                status, text, _ = await node.ask(path, method=method, **shown)
                expected = 401 if who in ("stranger", "nobody") else None if need in RIGHTS[who] else 403
                if (expected is None and status in (401, 403)) or (expected is not None and status != expected):
                    wrong[who, method, path] = status, text

    assert wrong == {}


@pytest.mark.row("type.NodeAgentAuthentication.x509", "type.NodeAgentX509Authentication.clientCAFile")
async def test_a_client_certificate_gives_the_user_and_its_groups(pki, tmp_path):
    async with serving(pki, tmp_path) as node:
        known, *_ = await node.ask("/healthz", tls=pki.client("admin", ["ops", "people"]))
        other, text, _ = await node.ask("/healthz", tls=pki.client("somebody"))
        asked = node.api.reviews()

    assert known == 200
    assert other == 403
    assert text == "Forbidden (user=somebody, verb=get, resource=nodes, subresource=proxy)"
    assert asked[0]["user"] == "admin"
    assert set(asked[0]["groups"]) == {"ops", "people", "system:authenticated"}


@pytest.mark.row("type.NodeAgentX509Authentication.clientCAFile")
async def test_a_certificate_of_a_foreign_authority_does_not_get_through(pki, tmp_path):
    async with serving(pki, tmp_path) as node:
        with pytest.raises((ssl.SSLError, OSError, aiohttp.ClientError)):
            await node.ask("/healthz", tls=pki.client("admin", ca=generate_ca("foreign")))


@pytest.mark.row("type.NodeAgentX509Authentication.clientCAFile")
async def test_a_changed_bundle_of_authorities_counts_for_the_next_connection(pki, tmp_path):
    successor = generate_ca("successor")
    async with serving(pki, tmp_path) as node:
        before, *_ = await node.ask("/healthz", tls=pki.client("admin"))
        pki.put("ca.crt", successor.certificate)
        await node.clock.advance(2)
        with pytest.raises((ssl.SSLError, OSError, aiohttp.ClientError)):
            await node.ask("/healthz", tls=pki.client("admin"))
        after, *_ = await node.ask("/healthz", tls=pki.client("admin", ca=successor))

    assert (before, after) == (200, 200)


@pytest.mark.row("type.NodeAgentX509Authentication.clientCAFile")
async def test_a_connection_does_not_outlive_the_trust_in_its_certificate(pki, tmp_path):
    async with serving(pki, tmp_path) as node:
        connector = aiohttp.TCPConnector(ssl=pki.client("admin"), limit=1)
        async with aiohttp.ClientSession(f"https://127.0.0.1:{node.server.port}", connector=connector) as session:

            async def ask():
                async with session.get("/healthz") as answer:
                    await answer.read()
                    return answer.status

            first = await ask()
            pki.serve("renewed")
            await node.clock.advance(2)
            renewed = await ask()
            pki.put("ca.crt", generate_ca("successor").certificate)
            await node.clock.advance(2)
            replaced = await ask()

    assert (first, renewed, replaced) == (200, 200, 401)


@pytest.mark.row("type.NodeAgentAuthentication.x509")
async def test_without_a_bundle_a_client_certificate_says_nothing(pki, tmp_path):
    async with serving(pki, tmp_path, authentication=authentication()) as node:
        status, *_ = await node.ask("/healthz", tls=pki.client("admin"))

    assert status == 401


@pytest.mark.row("type.NodeAgentAuthentication.webhook", "type.NodeAgentWebhookAuthentication.enabled")
async def test_bearer_tokens_count_only_while_the_webhook_is_enabled(pki, tmp_path):
    async with serving(pki, tmp_path) as node:
        enabled, *_ = await node.ask("/healthz", token="admin-token")
    bundle = str(pki.directory / "ca.crt")
    off = authentication(client_ca=bundle, webhook=False)
    async with serving(pki, tmp_path, authentication=off, authorization=ALWAYS_ALLOW) as node:
        disabled, *_ = await node.ask("/healthz", token="admin-token")
        asked = node.api.reviews()

    assert (enabled, disabled, asked) == (200, 401, [])


@pytest.mark.row("type.NodeAgentWebhookAuthentication.cacheTTL")
async def test_an_answer_about_a_token_holds_for_its_time(pki, tmp_path):
    known = Authentication(webhook=WebhookAuthentication(cache_ttl=seconds(10)))
    async with serving(pki, tmp_path, authorization=ALWAYS_ALLOW, authentication=known) as node:
        for pause in (0, 5, 4):
            await node.clock.advance(pause)
            await node.ask("/healthz", token="admin-token")
            await node.ask("/healthz", token="made-up")
        first = len(node.api.reviews())
        await node.clock.advance(2)
        await node.ask("/healthz", token="admin-token")
        await node.ask("/healthz", token="made-up")

        assert (first, len(node.api.reviews())) == (2, 4)


@pytest.mark.row(
    "type.NodeAgentAuthorization.webhook",
    "type.NodeAgentWebhookAuthorization.cacheAuthorizedTTL",
    "type.NodeAgentWebhookAuthorization.cacheUnauthorizedTTL",
)
async def test_a_yes_and_a_no_hold_each_for_its_own_time(pki, tmp_path):
    admin, other = pki.client("admin"), pki.client("other")
    webhook = WebhookAuthorization(cache_authorized_ttl=seconds(100), cache_unauthorized_ttl=seconds(10))
    async with serving(pki, tmp_path, authorization=Authorization(webhook=webhook)) as node:
        counts = []
        for pause in (0, 9, 2, 90):
            await node.clock.advance(pause)
            await node.ask("/healthz", tls=admin)
            await node.ask("/healthz", tls=other)
            counts.append([sum(r["user"] == who for r in node.api.reviews()) for who in ("admin", "other")])

    assert counts == [[1, 1], [1, 1], [1, 2], [2, 3]]


@pytest.mark.row("type.NodeAgentAuthentication.anonymous", "type.NodeAgentAnonymousAuthentication.enabled")
async def test_anonymous_takes_only_who_shows_nothing(pki, tmp_path):
    RIGHTS["system:anonymous"] = {("get", "proxy")}
    try:
        async with serving(pki, tmp_path, authentication=authentication(anonymous=True)) as node:
            nothing, *_ = await node.ask("/healthz")
            more, text, _ = await node.ask("/metrics")
            bad, *_ = await node.ask("/healthz", token="made-up")
            groups = node.api.reviews()[0]["groups"]
    finally:
        del RIGHTS["system:anonymous"]

    assert (nothing, more, bad) == (200, 403, 401)
    assert "user=system:anonymous" in text
    assert groups == ["system:unauthenticated"]


@pytest.mark.row("type.NodeAgentAuthorization.mode")
async def test_always_allow_lets_everybody_through_who_is_known(pki, tmp_path):
    async with serving(pki, tmp_path, authorization=ALWAYS_ALLOW) as node:
        known, *_ = await node.ask("/healthz", tls=pki.client("whoever"))
        unknown, *_ = await node.ask("/healthz")

    assert (known, unknown) == (200, 401)


async def test_a_websocket_may_carry_the_token_as_its_sub_protocol(pki, tmp_path):
    async with serving(pki, tmp_path) as node:
        headers = {"Sec-WebSocket-Protocol": f"v4.channel.k8s.io, {protocol_token('admin-token')}"}
        known, *_ = await node.ask("/healthz", headers=headers)
        headers = {"Sec-WebSocket-Protocol": protocol_token("made-up")}
        unknown, *_ = await node.ask("/healthz", headers=headers)

    assert (known, unknown) == (200, 401)


async def test_a_right_to_one_of_a_path_s_subresources_is_enough(pki, tmp_path):
    RIGHTS["debugger"] = {("create", "exec")}
    try:
        async with serving(pki, tmp_path) as node:
            debugger = pki.client("debugger")
            own, *_ = await node.ask("/exec/default/web/main", tls=debugger)
            other, *_ = await node.ask("/attach/default/web/main", tls=debugger)
    finally:
        del RIGHTS["debugger"]

    assert own not in (401, 403)
    assert other == 403


async def test_a_path_written_in_another_way_needs_the_same_right(pki, tmp_path):
    async with serving(pki, tmp_path) as node:
        for path in ("/%65xec/default/web/main", "//exec/default/web/main", "/pods/../exec/default/web/main"):
            status, *_ = await node.ask(path, token="viewer-token")
            assert status in (403, 404), path


async def test_nobody_gets_through_while_the_api_server_does_not_answer(pki, tmp_path):
    async with serving(pki, tmp_path) as node:
        node.api.outage = True

        async def ask(**shown):
            async with asyncio.timeout(10):
                asking = asyncio.create_task(node.ask("/healthz", **shown))
                while not asking.done():
                    await asyncio.sleep(0.01)
                    await node.clock.advance(1)
                return (await asking)[0]

        for verb in ("tokenreviews", "subjectaccessreviews"):
            node.api.fail(verb, ApiUnavailable("gone"), times=10)
        token, certificate = await ask(token="admin-token"), await ask(tls=pki.client("admin"))

    assert (token, certificate) == (401, 500)


async def test_the_header_of_a_request_is_no_place_in_the_log(pki, tmp_path, caplog):
    caplog.set_level(1)
    async with serving(pki, tmp_path) as node:
        await node.ask("/healthz", token="admin-token")
        await node.ask("/healthz", token="made-up-secret")

    assert "admin-token" not in caplog.text
    assert "made-up-secret" not in caplog.text


async def test_hook_provide_routes_adds_guarded_paths(pki, tmp_path):
    async def hello(request):
        return web.Response(text="hello")

    class Foreign:
        @hookimpl
        def nodeagent_provide_routes(self):
            return [Route("GET", "/hello", hello, subresources=("log",))]

    async with serving(pki, tmp_path, plugins=[Foreign()]) as node:
        viewer, text, _ = await node.ask("/hello", token="viewer-token")
        scraper, *_ = await node.ask("/hello", token="scraper-token")
        nobody, *_ = await node.ask("/hello")

    assert (viewer, text) == (200, "hello")
    assert (scraper, nobody) == (403, 401)


async def test_a_handler_that_answers_nothing_is_named_in_the_log(pki, tmp_path, caplog):
    async def forgot(request):
        pass

    class Foreign:
        @hookimpl
        def nodeagent_provide_routes(self):
            return [Route("GET", "/hello", forgot)]

    async with serving(pki, tmp_path, plugins=[Foreign()]) as node:
        status, *_ = await node.ask("/hello", token="admin-token")

    assert status == 500
    assert "forgot of /hello returned None, expected web.Response" in caplog.text


@pytest.mark.row("config.enableServer")
async def test_a_lone_node_does_not_serve_what_it_cannot_guard_and_says_what_to_set(pki, tmp_path, caplog):
    async with serving(pki, tmp_path, standalone=True) as node:
        await asyncio.sleep(0.05)
        assert node.server.port == 0

    (record,) = [record for record in caplog.records if record.message == "Failed to serve secure port"]
    assert "authentication.webhook.enabled" in record.err
