"""Tests for the ports: TLS, health, the read-only port, metrics, and limits per client."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import socket
import ssl

import aiohttp
import pytest
from aiohttp import web

from nodeagent import hookimpl
from nodeagent.base.tls import generate_ca, issue
from nodeagent.contracts.server import Exposure, Route
from nodeagent.contracts.stats import ContainerUsage, FilesystemStats, PodUsage, VolumeUsage
from nodeagent.model.pod import PodStatus
from nodeagent.server import listener
from nodeagent.server.app import MAX_BODY_BYTES
from nodeagent.server.connection import MAX_HEADER_BYTES, MAX_HEADERS, MAX_LINE_BYTES
from nodeagent.server.request_metrics import REQUESTS
from nodeagent.server.serving_certificate import ensure_self_signed
from nodeagent.testing import FakePodDirectory, FakeRuntime, FakeStats, make_pod
from tests.integration.server.conftest import ALWAYS_ALLOW, problems, serving


async def peer_certificate(node, **changes):
    """Return the serving certificate that a client sees, and the connection's version and cipher."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for name, value in changes.items():
        if name == "ciphers":
            context.set_ciphers(value)
        else:
            setattr(context, name, value)
    _, writer = await node.connect(context)
    try:
        tls = writer.get_extra_info("ssl_object")
        return tls.getpeercert(binary_form=True), tls.version(), tls.cipher()[0]
    finally:
        writer.close()
        with contextlib.suppress(Exception):
            await writer.wait_closed()


@pytest.mark.row("config.tlsCertFile", "config.tlsPrivateKeyFile")
async def test_changed_serving_files_apply_to_the_next_connection(pki, tmp_path):
    async with serving(pki, tmp_path) as node:
        first, *_ = await peer_certificate(node)
        pki.serve("renewed")
        await node.clock.advance(2)
        second, *_ = await peer_certificate(node)
        (pki.directory / "server.key").write_text("broken")
        await node.clock.advance(2)
        third, *_ = await peer_certificate(node)

    assert first != second
    assert second == third


@pytest.mark.row("config.tlsCertFile")
async def test_certificate_chain_is_sent(pki, tmp_path):
    intermediate = generate_ca("other-ca")
    leaf = issue(intermediate, "node-1", names=["127.0.0.1"], server=True)
    pki.put("server.crt", leaf.certificate + intermediate.certificate)
    pki.put("server.key", leaf.key)
    trusting = ssl.create_default_context(cadata=intermediate.certificate.decode())
    async with serving(pki, tmp_path) as node:
        status, *_ = await node.fetch("/healthz", tls=trusting, token="admin-token")

    assert status == 200


@pytest.mark.row("config.tlsCertFile", "config.tlsPrivateKeyFile")
async def test_default_certificate_is_self_signed(pki, tmp_path):
    pair = await ensure_self_signed(tmp_path / "pki", ["node-1"])
    async with serving(pki, tmp_path, tls_files=False) as node:
        seen, *_ = await peer_certificate(node)

    assert ssl.DER_cert_to_PEM_cert(seen) in pair.certificate.read_text()


@pytest.mark.row("config.tlsMinVersion")
@pytest.mark.parametrize(
    ("minimum", "rejected"), [("", ssl.TLSVersion.TLSv1_1), ("VersionTLS13", ssl.TLSVersion.TLSv1_2)]
)
async def test_older_tls_versions_are_rejected(pki, tmp_path, minimum, rejected):
    async with serving(pki, tmp_path, tls_min_version=minimum) as node:
        _, version, _ = await peer_certificate(node)
        with (
            pytest.raises((ssl.SSLError, OSError)),
            pytest.warns(DeprecationWarning) if minimum == "" else contextlib.nullcontext(),
        ):
            await peer_certificate(node, minimum_version=rejected, maximum_version=rejected)

    assert version == "TLSv1.3"


@pytest.mark.row("config.tlsCipherSuites")
async def test_only_configured_cipher_suites_are_accepted(pki, tmp_path):
    named = ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",)
    newest = {"maximum_version": ssl.TLSVersion.TLSv1_2}
    async with serving(pki, tmp_path, tls_cipher_suites=named) as node:
        *_, cipher = await peer_certificate(node, **newest)
        with pytest.raises((ssl.SSLError, OSError)):
            await peer_certificate(node, ciphers="ECDHE-ECDSA-AES128-GCM-SHA256", **newest)

    assert cipher == "ECDHE-ECDSA-AES256-GCM-SHA384"


@pytest.mark.row("config.address", "config.port")
async def test_port_is_only_on_the_configured_address(pki, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    async with serving(pki, tmp_path, port=port) as node:
        assert node.server.port == port
        assert (await node.fetch("/healthz", token="admin-token"))[0] == 200
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.2", node.server.port)


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])
def test_unspecified_address_is_dual_stack(address):
    bound = listener.bind(address, 0)
    try:
        assert bound.getsockname()[0] == "::"
        assert not bound.getblocking()
    finally:
        bound.close()


async def test_health_lists_checks_and_logs_the_reason(pki, tmp_path, caplog):
    async with serving(pki, tmp_path) as node:
        admin = pki.client("admin")
        fine = await node.fetch("/healthz", tls=admin)
        verbose = await node.fetch("/healthz?verbose", tls=admin)
        problems["syncloop"] = "relisting takes too long"
        broken = await node.fetch("/healthz", tls=admin)
        without = await node.fetch("/healthz?exclude=syncloop", tls=admin)
        one = await node.fetch("/healthz/syncloop", tls=admin)
        other = await node.fetch("/healthz/ping", tls=admin)
        none = await node.fetch("/healthz/none", tls=admin)

    assert fine[:2] == (200, "ok")
    assert verbose[1] == "[+]ping ok\n[+]log ok\n[+]syncloop ok\nhealthz check passed\n"
    assert broken[:2] == (
        500,
        "[+]ping ok\n[+]log ok\n[-]syncloop failed: reason withheld\nhealthz check failed\n",
    )
    assert without[:2] == (200, "ok")
    assert one[:2] == (500, "internal server error: relisting takes too long\n")
    assert (other[0], none[0]) == (200, 404)
    assert any(getattr(record, "err", "") == "relisting takes too long" for record in caplog.records)


HIDDEN = [("/configz", "GET"), ("/debug/flags/v", "PUT"), ("/checkpoint/default/web/main", "POST")]


@pytest.mark.row("config.readOnlyPort")
async def test_read_only_port_serves_health_pods_and_metrics_only(pki, tmp_path):
    def fetch(path, method="GET"):
        return node.fetch(path, method=method, read_only=True)

    async with serving(pki, tmp_path, read_only_port=listener_port(), enable_server=False) as node:
        assert node.server.port == 0
        shown = {path: (await fetch(path))[0] for path in ("/healthz", "/healthz/ping", "/pods", "/metrics")}
        rejected = {
            path: (await fetch(path, method))[:2]
            for path, method in [
                ("/exec/default/web/main", "POST"),
                ("/attach/default/web/main", "GET"),
                ("/run/default/web/main", "POST"),
                ("/portForward/default/web", "POST"),
                ("/containerLogs/default/web/main", "GET"),
                ("/runningpods/", "GET"),
                ("/logs/", "GET"),
                ("/logs/syslog", "GET"),
                ("/debug/pprof/", "GET"),
                ("/debug/pprof/cmdline", "GET"),
            ]
        }
        hidden = {path: (await fetch(path, m))[0] for path, m in HIDDEN}

    assert set(shown.values()) == {200}
    assert set(rejected.values()) == {(405, "Debug endpoints are disabled.\n")}
    assert set(hidden.values()) == {404}


def listener_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.row("config.enableServer")
async def test_disabled_ports_are_not_served(pki, tmp_path):
    async with serving(pki, tmp_path, enable_server=False) as node:
        assert not node.server.enabled
        assert (node.server.port, node.server.read_only_port) == (0, 0)


async def test_metrics_have_upstream_names(pki, tmp_path):
    pod = make_pod("web")
    static = make_pod("etcd", annotations={"kubernetes.io/config.source": "file"})
    runtime, pods = FakeRuntime(), FakePodDirectory(pod, static)
    container_id = runtime.start("main", pod)
    pods.runtime_pods[pod.uid] = runtime.pod(pod.uid)
    volume = VolumeUsage("data", FilesystemStats(1, used_bytes=7), claim=("default", "claim"))
    logs = ContainerUsage("main", 1, logs=FilesystemStats(1, used_bytes=8), container_id=container_id)
    stats = FakeStats(pods=[PodUsage(pod.uid, "default", "web", 1, containers=[logs], volumes=[volume])])
    before = {path: REQUESTS.value("GET", path, "readwrite", "false") for path in ("pods", "other")}
    async with serving(pki, tmp_path, parts={"pods": pods, "runtime": runtime, "stats": stats}) as node:
        await node.fetch("/pods", token="admin-token")
        await node.fetch("/made/up/path", token="admin-token")
        status, text, headers = await node.fetch("/metrics", token="scraper-token")
        _, _, opened = await node.fetch(
            "/metrics", token="scraper-token", headers={"Accept": "application/openmetrics-text; version=1.0.0"}
        )

    lines = text.splitlines()
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain")
    assert opened["Content-Type"].startswith("application/openmetrics-text")
    for expected in (
        'kubelet_node_name{node="node-1"} 1',
        'kubelet_desired_pods{static="true"} 1',
        'kubelet_desired_pods{static=""} 1',
        'kubelet_active_pods{static=""} 1',
        "kubelet_running_pods 1",
        'kubelet_running_containers{container_state="running"} 1',
        *(
            f'kubelet_http_requests_total{{method="GET",path="{path}",server_type="readwrite",long_running="false"}} '
            f"{count + 1:g}"
            for path, count in before.items()
        ),
        'kubelet_http_inflight_requests{method="GET",path="metrics",server_type="readwrite",long_running="false"} 1',
        'kubelet_volume_stats_used_bytes{namespace="default",persistentvolumeclaim="claim"} 7',
        "kubelet_container_log_filesystem_used_bytes"
        f'{{uid="{pod.uid}",namespace="default",pod="web",container="main"}} 8',
    ):
        assert expected in lines
    assert any(line.startswith("process_resident_memory_bytes ") for line in lines)
    assert "made/up" not in text


@pytest.mark.row("config.enableServer")
async def test_pods_have_spec_and_status(pki, tmp_path):
    pod = make_pod("web")
    runtime, pods = FakeRuntime(), FakePodDirectory(pod)
    runtime.start("main", pod)
    pods.statuses[pod.uid] = PodStatus(phase="Running")
    async with serving(pki, tmp_path, parts={"pods": pods, "runtime": runtime}) as node:
        _, expected, headers = await node.fetch("/pods", token="admin-token")
        _, running, _ = await node.fetch("/runningpods/", token="admin-token")

    assert headers["Content-Type"].startswith("application/json")
    (shown,) = json.loads(expected)["items"]
    assert (shown["metadata"]["name"], shown["status"]["phase"]) == ("web", "Running")
    (shown,) = json.loads(running)["items"]
    assert shown["metadata"] == {"name": "web", "namespace": "default", "uid": pod.uid}
    assert [c["name"] for c in shown["spec"]["containers"]] == ["main"]


# --- misbehaving clients -----------------------------------------------------------------------------------


async def raw(node, data, tls=None):
    """Send *data* and return everything received until the server closes."""
    reader, writer = await node.connect(tls)
    try:
        with contextlib.suppress(ConnectionError):
            for piece in data:
                writer.write(piece)
                await writer.drain()
        async with asyncio.timeout(10):
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                return await reader.read()
        return b""
    finally:
        writer.close()
        with contextlib.suppress(Exception):
            await writer.wait_closed()


async def test_endless_header_is_rejected(pki, tmp_path):
    endless = [b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: ", *[b"x" * 65536] * 400]
    many = [b"GET /healthz HTTP/1.1\r\nHost: a\r\n", *[b"X: y\r\n" * 1000] * 400]
    line = [b"GET /", *[b"x" * 65536] * 400]
    async with serving(pki, tmp_path) as node:
        for data in (endless, many, line):
            response = await raw(node, data)
            assert response == b"" or response.startswith((b"HTTP/1.0 400", b"HTTP/1.1 400"))
        for size in ("line", "field", "fields"):
            complete = {
                "line": b"GET /%s HTTP/1.1\r\nHost: a\r\n\r\n" % (b"x" * 2 * MAX_LINE_BYTES),
                "field": b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: %s\r\n\r\n" % (b"x" * 2 * MAX_HEADER_BYTES),
                "fields": b"GET /healthz HTTP/1.1\r\n%s\r\n" % (b"X: y\r\n" * 2 * MAX_HEADERS),
            }[size]
            response = await raw(node, [complete])
            assert response == b"" or response.startswith((b"HTTP/1.0 400", b"HTTP/1.1 400")), (size, response[:200])
        assert (await node.fetch("/healthz", token="admin-token"))[0] == 200


async def test_body_size_is_limited(pki, tmp_path):
    async with serving(pki, tmp_path, authorization=ALWAYS_ALLOW) as node:
        status, text, _ = await node.fetch("/debug/flags/v", method="PUT", token="admin-token", body=b"9" * 900_000)

        form = b"only_cpu_and_memory=" + b"x" * 2 * MAX_BODY_BYTES
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        rejected, *_ = await node.fetch(
            "/stats/summary", method="POST", token="admin-token", body=io.BytesIO(form), headers=kind
        )

    assert rejected == 413
    assert status == 503  # Logging is not configured here; the body is limited nevertheless.
    assert len(text) < 300


async def test_silent_client_is_closed_without_affecting_others(pki, tmp_path, monkeypatch):
    monkeypatch.setattr(listener, "FIRST_REQUEST_SECONDS", 0.3)
    async with serving(pki, tmp_path) as node:
        silent = [asyncio.create_task(raw(node, [])) for _ in range(20)]
        slow = asyncio.create_task(raw(node, [b"GET /healthz HTTP/1.1\r\nHost: a\r\n"]))
        no_tls = await asyncio.open_connection("127.0.0.1", node.server.port)
        status, *_ = await node.fetch("/healthz", token="admin-token")
        responses = await asyncio.gather(*silent, slow)
        async with asyncio.timeout(10):
            rest = await no_tls[0].read()
        no_tls[1].close()

    assert status == 200
    assert set(responses) == {b""}
    assert rest == b""


async def test_connection_limit_releases_closed_connections(pki, tmp_path, monkeypatch):
    monkeypatch.setattr(listener, "MAX_CONNECTIONS_PER_ADDRESS", 5)
    async with serving(pki, tmp_path) as node:
        held = [await node.connect() for _ in range(5)]
        with pytest.raises((OSError, ssl.SSLError)):
            await node.connect()
        for _, writer in held:
            writer.close()
            with contextlib.suppress(Exception):
                await writer.wait_closed()
        for _ in range(50):
            await asyncio.sleep(0.02)
            try:
                status, *_ = await node.fetch("/healthz", token="admin-token")
                break
            except Exception:
                continue

    assert status == 200


async def test_port_in_use_is_retried(pki, tmp_path, caplog):
    port = listener_port()
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", port))
        holder.listen()
        async with serving(pki, tmp_path, port=port, wait=False) as node:
            for _ in range(100):
                await asyncio.sleep(0.02)
                if any("trying again" in record.message for record in caplog.records):
                    break
            assert node.server.port == 0
            holder.close()
            await node.clock.advance(6)
            for _ in range(100):
                await asyncio.sleep(0.02)
                if node.server.port:
                    break
            assert (await node.fetch("/healthz", token="admin-token"))[0] == 200


class Greeter:
    """Plugin whose routes change."""

    def __init__(self) -> None:
        self.entered, self.finish, self.paths = asyncio.Event(), asyncio.Event(), ["/slow"]

    @hookimpl
    def nodeagent_provide_routes(self):
        return [Route("GET", path, self.greet, Exposure.READ_ONLY, ("proxy",)) for path in self.paths]

    async def greet(self, request):
        if request.path == "/slow":
            self.entered.set()
            await self.finish.wait()
        return web.Response(text=request.path)


async def test_changed_routes_apply_and_requests_in_progress_end(pki, tmp_path):
    plugin = Greeter()
    async with serving(pki, tmp_path, plugins=[plugin], read_only_port=listener_port(), enable_server=False) as node:
        slow = asyncio.create_task(node.fetch("/slow", read_only=True))
        await plugin.entered.wait()
        plugin.paths = ["/new"]
        await node.server.change_routes()

        assert (await node.fetch("/new", read_only=True))[:2] == (200, "/new")
        assert (await node.fetch("/slow", read_only=True))[0] == 404
        plugin.finish.set()
        assert (await slow)[:2] == (200, "/slow")


async def test_invalid_changed_routes_are_an_error_and_the_previous_ones_stay(pki, tmp_path):
    plugin = Greeter()
    plugin.paths = ["/hello"]
    async with serving(pki, tmp_path, plugins=[plugin], read_only_port=listener_port(), enable_server=False) as node:
        await node.fetch("/hello", read_only=True)
        plugin.paths = ["/new", "/new"]

        with pytest.raises(RuntimeError, match="already registered"):
            await node.server.change_routes()

        assert (await node.fetch("/hello", read_only=True))[0] == 200


async def test_paths_of_clients_are_no_labels_of_metrics(pki, tmp_path):
    async with serving(pki, tmp_path, read_only_port=listener_port()) as node:
        for number in range(50):
            await node.fetch(f"/made-up-{number}", method=f"MADE{number}", read_only=True)
            await node.fetch(f"/stats/made-up-{number}", token="admin-token")
        _, text, _ = await node.fetch("/metrics", token="scraper-token")

    assert "made-up" not in text.lower()
    assert "MADE" not in text


class ClosingStream:
    """Plugin with a stream that ends on its next write because the client has disconnected."""

    @hookimpl
    def nodeagent_provide_routes(self):
        async def write(request):
            response = web.StreamResponse()
            await response.prepare(request)
            request.transport.close()
            await response.write(b"more")
            return response

        return [Route("GET", "/stream", write, Exposure.READ_ONLY, streams=True)]


async def test_client_that_disconnects_is_not_logged_as_an_error(pki, tmp_path, caplog):
    caplog.set_level("INFO")
    async with serving(
        pki, tmp_path, plugins=[ClosingStream()], read_only_port=listener_port(), enable_server=False
    ) as node:
        with contextlib.suppress(aiohttp.ClientPayloadError):
            await node.fetch("/stream", read_only=True)
        async with asyncio.timeout(10):
            while not (served := [record for record in caplog.records if record.message == "Served"]):
                await asyncio.sleep(0.01)
        await asyncio.sleep(0)

    assert [record.status for record in served] == ["aborted"]
    assert [record.message for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []
