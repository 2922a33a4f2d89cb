"""Tests for the life cycle of the process: health during start and shutdown, profiles, and the token issuer."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import signal
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest

from apiserver_stub.server.running_server import RunningServer

from .conftest import Api, Server
from .in_process import start

CHECKS = ["ping", "etcd", "poststarthook/start-system-namespaces-controller"]


def test_libraries_for_keys_are_loaded_with_the_first_token(tmp_path: Path) -> None:
    server = Server(tmp_path)
    mapped = Path(f"/proc/{server.process.pid}/maps")
    try:
        before = mapped.read_text()
        path = "/api/v1/namespaces/default/serviceaccounts/default/token"
        issued = server.api().ok("POST", path, {"spec": {}})
        review = {"spec": {"token": issued["status"]["token"]}}
        reviewed = server.api().ok("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)
        after = mapped.read_text()
    finally:
        server.stop()
    assert reviewed["status"]["user"]["username"] == "system:serviceaccount:default:default"
    assert ("cryptography" in before, "cryptography" in after) == (False, True)


@pytest.mark.row("path.apiserver./healthz", "path.apiserver./livez", "path.apiserver./readyz")
@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_health_has_named_checks(server: Server, path: str) -> None:
    anonymous = server.api(None)
    code, headers, body = anonymous.raw("GET", path)
    assert (code, body, headers["content-type"]) == (200, b"ok", "text/plain; charset=utf-8")
    api = server.api()
    lines = api.raw("GET", f"{path}?verbose")[2].decode().splitlines()
    ready = path == "/readyz"
    names = [*CHECKS[:2], "etcd-readiness", *CHECKS[2:], "shutdown"] if ready else CHECKS
    assert lines[:-1] == [f"[+]{name} ok" for name in names]
    assert lines[-1] == f"{path[1:]} check passed"
    assert "[+]etcd excluded: ok" in api.raw("GET", f"{path}?verbose&exclude=etcd")[2].decode()
    assert b'no matches for "foo"' in api.raw("GET", f"{path}?verbose&exclude=foo")[2]
    assert api.raw("GET", f"{path}/etcd")[2] == b"ok"
    assert api.raw("GET", f"{path}/nope")[0] == 404


@pytest.mark.row("path.apiserver./livez", "opt.livez-grace-period")
@pytest.mark.parametrize(("grace", "code"), [("1h", 200), ("1ms", 500), ("0s", 500)])
async def test_livez_succeeds_during_the_startup_grace_period(tmp_path: Path, grace: str, code: int) -> None:
    running = await start(tmp_path / "data", f"--livez-grace-period={grace}")
    try:
        running.lifecycle.ready = False
        assert await status(running, "/livez") == code
        assert await status(running, "/healthz") == 500
        assert await status(running, "/readyz") == 500
    finally:
        await running.stop()


@pytest.mark.row("gate.ComponentSLIs")
@pytest.mark.parametrize(("enabled", "code"), [("true", 200), ("false", 404)])
async def test_outcomes_of_health_checks_follow_their_gate(tmp_path: Path, enabled: str, code: int) -> None:
    running = await start(tmp_path / "data", f"--feature-gates=ComponentSLIs={enabled}")
    try:
        assert await status(running, "/metrics/slis", Authorization=f"Bearer {running.token}") == code
    finally:
        await running.stop()


async def test_start_and_shutdown_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    running = await start(tmp_path / "data")

    await running.stop()

    names = ("apiserver_stub.server.listening", "apiserver_stub.server.running_server")
    records = [record for record in caplog.records if record.name in names]
    assert records[0].getMessage() == f"Serving securely on 127.0.0.1:{urlsplit(running.url).port}"
    assert [vars(record)["event"] for record in records[1:]] == [
        "ShutdownInitiated",
        "AfterShutdownDelayDuration",
        "NotAcceptingNewRequest",
        "InFlightRequestsDrained",
        "HTTPServerStoppedListening",
    ]


async def status(running: RunningServer, path: str, **headers: str) -> int:
    context = ssl.create_default_context(cafile=str(running.ca_file))
    async with (
        aiohttp.ClientSession(headers=headers) as client,
        client.get(f"{running.url}{path}", ssl=context) as response,
    ):
        return response.status


@contextmanager
def stopping(server: Server, *, seconds: float = 20) -> Iterator[None]:
    """Send SIGTERM, and wait for the exit afterwards."""
    server.process.send_signal(signal.SIGTERM)
    yield
    assert server.process.wait(seconds) == 0
    server.stop()


@pytest.mark.row("path.apiserver./healthz", "path.apiserver./livez", "path.apiserver./readyz")
@pytest.mark.row("apiserver.error.shutdown-delay-window", "opt.shutdown-delay-duration")
def test_shutdown_delay_serves_requests_and_fails_readyz(tmp_path: Path) -> None:
    server = Server(tmp_path / "data", "--shutdown-delay-duration=3s")
    api, late = server.api(), server.api()
    api.ok("GET", "/version")

    with stopping(server):
        wait_until(lambda: api.raw("GET", "/readyz")[0] == 500)
        assert b"[-]shutdown failed" in api.raw("GET", "/readyz")[2]
        assert api.raw("GET", "/healthz")[0] == api.raw("GET", "/livez")[0] == 200
        late.ok("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "late"}})  # new connection
        wait_until(lambda: rejection(server))


@pytest.mark.row("apiserver.error.shutdown-delay-window", "path.apiserver./readyz")
async def test_readyz_fails_immediately_at_shutdown(tmp_path: Path) -> None:
    running = await start(tmp_path / "data", "--shutdown-delay-duration=1h")
    stopping = asyncio.create_task(running.stop())
    try:
        assert await status(running, "/readyz") == 500
        assert await status(running, "/livez") == await status(running, "/healthz") == 200
    finally:
        stopping.cancel()
        await asyncio.gather(stopping, return_exceptions=True)
        await running.stop()


@pytest.mark.row("apiserver.error.shutdown-with-shutdown-send-retry-after", "opt.shutdown-send-retry-after")
def test_new_requests_during_shutdown_get_retry_after(tmp_path: Path) -> None:
    server = Server(tmp_path / "data", "--shutdown-send-retry-after")
    api, fresh, watcher = server.api(), server.api(), server.api()
    endless = watcher.watch("/api/v1/namespaces/default/configmaps?watch=true", seconds=60)  # no client waits for it

    with open_request(server) as complete, endless, stopping(server):
        wait_until(lambda: api.raw("GET", "/version")[0] == 429)
        api.close()
        code, headers, body = fresh.raw("GET", "/api/v1/nodes")
        assert (code, headers["retry-after"], headers["connection"].lower()) == (429, "5", "close")
        assert body == b"The apiserver is shutting down, please try again later.\n"
        fresh.close()
        assert fresh.raw("GET", "/livez")[0] == 200
        assert complete() == 201


def test_shutdown_closes_persistent_connections(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    api = server.api()
    api.ok("GET", "/version")

    with open_request(server) as complete, stopping(server):
        wait_until(lambda: rejection(server))
        code, gone = api.call("GET", "/version")
        assert (code, gone["reason"], gone["message"]) == (503, "ServiceUnavailable", "apiserver is shutting down")
        assert complete() == 201


@contextmanager
def open_request(server: Server) -> Iterator[Callable[[], int]]:
    """Start a request; yields a function that completes its body and returns the status code."""
    body = json.dumps({"metadata": {"name": "under-way"}}).encode()
    parts = urlsplit(server.ready["url"])
    context = ssl.create_default_context(cafile=server.ready["caFile"])
    connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=30, context=context)
    try:
        connection.putrequest("POST", "/api/v1/namespaces/default/configmaps")
        sent = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        for name, value in {"Authorization": f"Bearer {server.ready['token']}", **sent}.items():
            connection.putheader(name, value)
        connection.endheaders(body[:1])
        executing = b'apiserver_current_inflight_requests{request_kind="mutating"} 1\n'
        observer = server.api()
        wait_until(lambda: executing in observer.raw("GET", "/metrics")[2])
        observer.close()

        def complete() -> int:
            connection.send(body[1:])
            return connection.getresponse().status

        yield complete
    finally:
        connection.close()


def rejection(server: Server) -> bool:
    parts = urlsplit(server.ready["url"])
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=5)
    try:
        connection.connect()
    except ConnectionRefusedError:
        return True
    finally:
        connection.close()
    return False


def wait_until(condition: object, seconds: float = 15) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.05)


@pytest.mark.row("path.apiserver./debug/pprof/")
def test_profiles_require_authorization(server: Server, api: Api, tmp_path: Path) -> None:
    code, headers, page = api.raw("GET", "/debug/pprof/")
    assert (code, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert b'href="profile"' in page
    assert b"--data-dir" in api.raw("GET", "/debug/pprof/cmdline")[2]
    assert b"store/expire" in api.raw("GET", "/debug/pprof/goroutine?debug=1")[2]
    over, requesting = threading.Event(), server.api()
    busy = threading.Thread(target=lambda: [requesting.ok("GET", "/api/v1/pods") for _ in iter(over.is_set, True)])
    busy.start()
    code, headers, profile = api.raw("GET", "/debug/pprof/profile?seconds=1")
    over.set()
    busy.join()
    assert (code, headers["content-type"]) == (200, "application/octet-stream")
    assert b"nanoseconds" in gzip.decompress(profile)
    assert b"apiserver_stub/" in gzip.decompress(profile)
    assert api.raw("GET", "/debug/pprof/profile?seconds=100000")[0] == 400
    assert api.raw("GET", "/debug/pprof/nope")[0] == 404
    assert server.api(None).raw("GET", "/debug/pprof/")[0] == 403


@pytest.mark.row("path.apiserver./debug/pprof/", "opt.profiling")
async def test_profiling_can_be_disabled(tmp_path: Path) -> None:
    for options, code in ((["--profiling=false"], 404), ([], 200)):
        running = await start(tmp_path / str(code), *options)
        try:
            context = ssl.create_default_context(cafile=str(running.ca_file))
            headers = {"Authorization": f"Bearer {running.token}"}
            url = f"{running.url}/debug/pprof/"
            async with aiohttp.ClientSession(headers=headers) as client, client.get(url, ssl=context) as response:
                assert response.status == code
        finally:
            await running.stop()


DOCUMENT = "path.apiserver.{service-account-issuer}/.well-known/openid-configuration"


@pytest.mark.row(DOCUMENT)
def test_issuer_discovery_includes_the_keys(server: Server, api: Api) -> None:
    _, headers, body = api.raw("GET", "/.well-known/openid-configuration")
    document = json.loads(body)
    assert headers["cache-control"] == "public, max-age=3600"
    assert document == {
        "issuer": "https://kubernetes.default.svc",
        "jwks_uri": f"{server.ready['url']}/openid/v1/jwks",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    }
    _, headers, body = api.raw("GET", "/openid/v1/jwks")
    assert headers["content-type"] == "application/jwk-set+json"
    (key,) = json.loads(body)["keys"]
    assert (key["kty"], key["use"], key["alg"]) == ("EC", "sig", "ES256")

    account = api.ok("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", {"spec": {}})
    pod = server.api(account["status"]["token"])
    assert pod.ok("GET", "/.well-known/openid-configuration") == document
    assert server.api(None).raw("GET", "/.well-known/openid-configuration")[0] == 403


@pytest.mark.row(DOCUMENT, "opt.service-account-jwks-uri")
async def test_jwks_uri_is_configurable_and_requires_an_https_issuer(tmp_path: Path) -> None:
    elsewhere = "--service-account-jwks-uri=https://keys.example/jwks"
    for arguments, expected in (([elsewhere], "https://keys.example/jwks"), (["--service-account-issuer=me"], None)):
        running = await start(tmp_path / str(expected is None), *arguments)
        try:
            context = ssl.create_default_context(cafile=str(running.ca_file))
            url = f"{running.url}/.well-known/openid-configuration"
            headers = {"Authorization": f"Bearer {running.token}"}
            async with aiohttp.ClientSession(headers=headers) as client, client.get(url, ssl=context) as response:
                found = (await response.json())["jwks_uri"] if response.status == 200 else None
            assert found == expected
        finally:
            await running.stop()


async def test_gates_and_disabled_groups_change_served_resources(tmp_path: Path) -> None:
    running = await start(
        tmp_path / "data",
        "--feature-gates=StorageVersionHash=false,AggregatedDiscoveryEndpoint=false,APIResponseCompression=false",
        "--runtime-config=coordination.k8s.io/v1=false",
    )
    try:
        context = ssl.create_default_context(cafile=str(running.ca_file))
        headers = {"Authorization": f"Bearer {running.token}"}
        aggregated = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
        async with aiohttp.ClientSession(headers=headers) as client:
            async with client.get(f"{running.url}/api/v1", ssl=context) as response:
                resources = (await response.json())["resources"]
            async with client.get(f"{running.url}/apis", ssl=context, headers={"Accept": aggregated}) as response:
                groups = await response.json(content_type=None)
            async with client.get(f"{running.url}/apis/coordination.k8s.io/v1/leases", ssl=context) as response:
                assert (response.status, await response.text()) == (404, "404 page not found\n")
            for unknown in ("/apis/policy/v9", "/apis/policy/v9/poddisruptionbudgets", "/api/v9"):
                async with client.get(f"{running.url}{unknown}", ssl=context) as response:
                    assert (response.status, (await response.json())["reason"]) == (404, "NotFound")
            async with client.get(f"{running.url}/openapi/v2", ssl=context) as response:
                assert len(await response.read()) > 128 << 10
                assert "Content-Encoding" not in response.headers
    finally:
        await running.stop()
    assert not any("storageVersionHash" in resource for resource in resources)
    assert groups["kind"] == "APIGroupList"
    assert "coordination.k8s.io" not in {group["name"] for group in groups["groups"]}
