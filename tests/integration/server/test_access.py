"""Tests for authentication and authorization at the secured port."""

from __future__ import annotations

import asyncio
import ssl

import aiohttp
import pytest
from aiohttp import web

from nodeagent import hookimpl
from nodeagent.base.release import Release
from nodeagent.base.tls import generate_ca
from nodeagent.config.features import build_gates
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
# Permission that each request requires; the last two are for paths that do not exist.
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
async def test_each_request_requires_exactly_its_permission(pki, tmp_path):
    wrong = {}
    async with serving(pki, tmp_path) as node:
        for who, shown in WHO.items():
            for (method, path), need in NEEDS.items():
                status, text, _ = await node.fetch(path, method=method, **shown)
                expected = 401 if who in ("stranger", "nobody") else None if need in RIGHTS[who] else 403
                if (expected is None and status in (401, 403)) or (expected is not None and status != expected):
                    wrong[who, method, path] = status, text

    assert wrong == {}


@pytest.mark.row("type.NodeAgentAuthentication.x509", "type.NodeAgentX509Authentication.clientCAFile")
async def test_client_certificate_authenticates_user_and_groups(pki, tmp_path):
    async with serving(pki, tmp_path) as node:
        known, *_ = await node.fetch("/healthz", tls=pki.client("admin", ["ops", "people"]))
        other, text, _ = await node.fetch("/healthz", tls=pki.client("somebody"))
        attributes = node.api.reviews()

    assert known == 200
    assert other == 403
    assert text == "Forbidden (user=somebody, verb=get, resource=nodes, subresource=proxy)"
    assert attributes[0]["user"] == "admin"
    assert set(attributes[0]["groups"]) == {"ops", "people", "system:authenticated"}


@pytest.mark.row("type.NodeAgentX509Authentication.clientCAFile")
async def test_client_certificate_of_another_ca_is_rejected(pki, tmp_path):
    async with serving(pki, tmp_path) as node:
        with pytest.raises((ssl.SSLError, OSError, aiohttp.ClientError)):
            await node.fetch("/healthz", tls=pki.client("admin", ca=generate_ca("foreign")))


@pytest.mark.row("type.NodeAgentX509Authentication.clientCAFile")
async def test_changed_ca_bundle_applies_to_the_next_connection(pki, tmp_path):
    successor = generate_ca("successor")
    async with serving(pki, tmp_path) as node:
        before, *_ = await node.fetch("/healthz", tls=pki.client("admin"))
        pki.put("ca.crt", successor.certificate)
        await node.clock.advance(2)
        with pytest.raises((ssl.SSLError, OSError, aiohttp.ClientError)):
            await node.fetch("/healthz", tls=pki.client("admin"))
        after, *_ = await node.fetch("/healthz", tls=pki.client("admin", ca=successor))

    assert (before, after) == (200, 200)


@pytest.mark.row("type.NodeAgentX509Authentication.clientCAFile")
async def test_connection_closes_when_its_certificate_is_distrusted(pki, tmp_path):
    async with serving(pki, tmp_path) as node:
        connector = aiohttp.TCPConnector(ssl=pki.client("admin"), limit=1)
        async with aiohttp.ClientSession(f"https://127.0.0.1:{node.server.port}", connector=connector) as session:

            async def fetch():
                async with session.get("/healthz") as response:
                    await response.read()
                    return response.status

            first = await fetch()
            pki.serve("renewed")
            await node.clock.advance(2)
            renewed = await fetch()
            pki.put("ca.crt", generate_ca("successor").certificate)
            await node.clock.advance(2)
            replaced = await fetch()

    assert (first, renewed, replaced) == (200, 200, 401)


@pytest.mark.row("type.NodeAgentAuthentication.x509")
async def test_client_certificate_is_ignored_without_a_ca_bundle(pki, tmp_path):
    async with serving(pki, tmp_path, authentication=authentication()) as node:
        status, *_ = await node.fetch("/healthz", tls=pki.client("admin"))

    assert status == 401


@pytest.mark.row("type.NodeAgentAuthentication.webhook", "type.NodeAgentWebhookAuthentication.enabled")
async def test_bearer_tokens_require_the_webhook(pki, tmp_path):
    async with serving(pki, tmp_path) as node:
        enabled, *_ = await node.fetch("/healthz", token="admin-token")
    bundle = str(pki.directory / "ca.crt")
    off = authentication(client_ca=bundle, webhook=False)
    async with serving(pki, tmp_path, authentication=off, authorization=ALWAYS_ALLOW) as node:
        disabled, *_ = await node.fetch("/healthz", token="admin-token")
        attributes = node.api.reviews()

    assert (enabled, disabled, attributes) == (200, 401, [])


@pytest.mark.row("type.NodeAgentWebhookAuthentication.cacheTTL")
async def test_token_review_is_cached_for_its_ttl(pki, tmp_path):
    known = Authentication(webhook=WebhookAuthentication(cache_ttl=seconds(10)))
    async with serving(pki, tmp_path, authorization=ALWAYS_ALLOW, authentication=known) as node:
        for pause in (0, 5, 4):
            await node.clock.advance(pause)
            await node.fetch("/healthz", token="admin-token")
            await node.fetch("/healthz", token="made-up")
        first = len(node.api.reviews())
        await node.clock.advance(2)
        await node.fetch("/healthz", token="admin-token")
        await node.fetch("/healthz", token="made-up")

        assert (first, len(node.api.reviews())) == (2, 4)


@pytest.mark.row(
    "type.NodeAgentAuthorization.webhook",
    "type.NodeAgentWebhookAuthorization.cacheAuthorizedTTL",
    "type.NodeAgentWebhookAuthorization.cacheUnauthorizedTTL",
)
async def test_authorized_and_unauthorized_results_have_separate_ttls(pki, tmp_path):
    admin, other = pki.client("admin"), pki.client("other")
    webhook = WebhookAuthorization(cache_authorized_ttl=seconds(100), cache_unauthorized_ttl=seconds(10))
    async with serving(pki, tmp_path, authorization=Authorization(webhook=webhook)) as node:
        counts = []
        for pause in (0, 9, 2, 90):
            await node.clock.advance(pause)
            await node.fetch("/healthz", tls=admin)
            await node.fetch("/healthz", tls=other)
            counts.append([sum(r["user"] == who for r in node.api.reviews()) for who in ("admin", "other")])

    assert counts == [[1, 1], [1, 1], [1, 2], [2, 3]]


@pytest.mark.row("type.NodeAgentAuthentication.anonymous", "type.NodeAgentAnonymousAuthentication.enabled")
async def test_anonymous_applies_only_without_credentials(pki, tmp_path):
    RIGHTS["system:anonymous"] = {("get", "proxy")}
    try:
        async with serving(pki, tmp_path, authentication=authentication(anonymous=True)) as node:
            nothing, *_ = await node.fetch("/healthz")
            more, text, _ = await node.fetch("/metrics")
            bad, *_ = await node.fetch("/healthz", token="made-up")
            groups = node.api.reviews()[0]["groups"]
    finally:
        del RIGHTS["system:anonymous"]

    assert (nothing, more, bad) == (200, 403, 401)
    assert "user=system:anonymous" in text
    assert groups == ["system:unauthenticated"]


@pytest.mark.row("type.NodeAgentAnonymousAuthentication.enabled")
async def test_tokens_are_ignored_without_an_authenticator_for_them(pki, tmp_path):
    anonymous = authentication(webhook=False, anonymous=True)
    async with serving(pki, tmp_path, authentication=anonymous, authorization=ALWAYS_ALLOW) as node:
        status, *_ = await node.fetch("/healthz", token="made-up")

    assert status == 200


@pytest.mark.row("type.NodeAgentAuthorization.mode")
async def test_always_allow_permits_any_authenticated_user(pki, tmp_path):
    async with serving(pki, tmp_path, authorization=ALWAYS_ALLOW) as node:
        known, *_ = await node.fetch("/healthz", tls=pki.client("whoever"))
        unknown, *_ = await node.fetch("/healthz")

    assert (known, unknown) == (200, 401)


async def test_websocket_subprotocol_may_have_the_token(pki, tmp_path):
    async with serving(pki, tmp_path) as node:
        headers = {"Sec-WebSocket-Protocol": f"v4.channel.k8s.io, {protocol_token('admin-token')}"}
        known, *_ = await node.fetch("/healthz", headers=headers)
        headers = {"Sec-WebSocket-Protocol": protocol_token("made-up")}
        unknown, *_ = await node.fetch("/healthz", headers=headers)

    assert (known, unknown) == (200, 401)


async def test_permission_for_one_subresource_of_a_path_is_sufficient(pki, tmp_path):
    RIGHTS["debugger"] = {("create", "exec")}
    try:
        async with serving(pki, tmp_path) as node:
            debugger = pki.client("debugger")
            own, *_ = await node.fetch("/exec/default/web/main", tls=debugger)
            other, *_ = await node.fetch("/attach/default/web/main", tls=debugger)
    finally:
        del RIGHTS["debugger"]

    assert own not in (401, 403)
    assert other == 403


async def test_fine_grained_authorization_is_enabled_from_release_1_33(pki, tmp_path):
    paths = {"/pods": "pods", "/runningpods/": "pods", "/healthz": "healthz", "/healthz/syncloop": "healthz"}
    paths |= {"/configz": "configz", "/flagz": "configz", "/statusz": "statusz"}
    allowed, old = {}, {}
    try:
        for release, results in (("1.33", allowed), ("1.32", old)):
            gates = build_gates({"ComponentFlagz": True, "ComponentStatusz": True}, Release.parse(release))
            async with serving(pki, tmp_path / release, parts={"gates": gates}) as node:
                for path, subresource in paths.items():
                    RIGHTS["reader"] = {("get", subresource)}
                    status, *_ = await node.fetch(path, tls=pki.client("reader"))
                    results[path] = status not in (401, 403)
                _, forbidden, _ = await node.fetch("/pods", tls=pki.client("somebody"))
                results["text"] = forbidden.partition(", resource=nodes, ")[2]
    finally:
        RIGHTS.pop("reader", None)

    assert allowed == {**dict.fromkeys(paths, True), "text": "subresource(s)=[pods proxy])"}
    assert old == {**dict.fromkeys(paths, False), "text": "subresource=proxy)"}


async def test_fine_grained_authorization_still_permits_proxy(pki, tmp_path):
    gates = build_gates({"KubeletFineGrainedAuthz": True, "ComponentStatusz": True}, Release.parse("1.32"))
    async with serving(pki, tmp_path, parts={"gates": gates}) as node:
        statuses = {
            path: (await node.fetch(path, token="viewer-token"))[0] for path in ("/pods", "/healthz", "/statusz")
        }

    assert statuses == {"/pods": 200, "/healthz": 200, "/statusz": 403}


async def test_alternative_spelling_of_a_path_requires_its_permission(pki, tmp_path):
    async with serving(pki, tmp_path) as node:
        for path in ("/%65xec/default/web/main", "//exec/default/web/main", "/pods/../exec/default/web/main"):
            status, *_ = await node.fetch(path, token="viewer-token")
            assert status in (403, 404), path


async def test_requests_are_rejected_without_the_api_server(pki, tmp_path):
    async with serving(pki, tmp_path) as node:
        node.api.outage = True

        async def fetch(**shown):
            async with asyncio.timeout(10):
                fetching = asyncio.create_task(node.fetch("/healthz", **shown))
                while not fetching.done():
                    await asyncio.sleep(0.01)
                    await node.clock.advance(1)
                return (await fetching)[0]

        for verb in ("tokenreviews", "subjectaccessreviews"):
            node.api.fail(verb, ApiUnavailable("gone"), times=10)
        token, certificate = await fetch(token="admin-token"), await fetch(tls=pki.client("admin"))

    assert (token, certificate) == (401, 500)


async def test_request_headers_are_not_logged(pki, tmp_path, caplog):
    caplog.set_level(1)
    async with serving(pki, tmp_path) as node:
        await node.fetch("/healthz", token="admin-token")
        await node.fetch("/healthz", token="made-up-secret")

    assert "admin-token" not in caplog.text
    assert "made-up-secret" not in caplog.text


async def test_hook_provide_routes_adds_authorized_paths(pki, tmp_path):
    async def hello(request):
        return web.Response(text="hello")

    class ThirdParty:
        @hookimpl
        def nodeagent_provide_routes(self):
            return [Route("GET", "/hello", hello, subresources=("log",))]

    async with serving(pki, tmp_path, plugins=[ThirdParty()]) as node:
        viewer, text, _ = await node.fetch("/hello", token="viewer-token")
        scraper, *_ = await node.fetch("/hello", token="scraper-token")
        anonymous, *_ = await node.fetch("/hello")

    assert (viewer, text) == (200, "hello")
    assert (scraper, anonymous) == (403, 401)


async def test_handler_without_a_response_is_logged(pki, tmp_path, caplog):
    async def forgot(request):
        pass

    class ThirdParty:
        @hookimpl
        def nodeagent_provide_routes(self):
            return [Route("GET", "/hello", forgot)]

    async with serving(pki, tmp_path, plugins=[ThirdParty()]) as node:
        status, *_ = await node.fetch("/hello", token="admin-token")

    assert status == 500
    assert "forgot of /hello returned None, expected web.Response" in caplog.text


@pytest.mark.row("config.enableServer")
async def test_standalone_node_without_authentication_does_not_serve(pki, tmp_path, caplog):
    async with serving(pki, tmp_path, standalone=True) as node:
        await asyncio.sleep(0.05)
        assert node.server.port == 0

    (record,) = [record for record in caplog.records if record.message == "Failed to serve secure port"]
    assert "authentication.webhook.enabled" in record.err
