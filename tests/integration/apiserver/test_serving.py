"""Tests for serving options: addresses, certificates, CORS, logging and command-line output."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import socket
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography import x509

from apiserver_stub import __main__ as program
from apiserver_stub.options import OptionsError, parse
from apiserver_stub.server import startup
from apiserver_stub.server.running_server import RunningServer
from nodeagent import __version__
from nodeagent.base.tls import KeyPair, TlsError, generate_ca, issue
from nodeagent.testing.apiserver import usual_options
from tests.integration.programs import free_port

from .conftest import Server
from .in_process import start


async def send(running: RunningServer, method: str, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Return status code, headers and body of an administrator's request."""
    context = ssl.create_default_context(cafile=str(running.ca_file))
    given = {"Authorization": f"Bearer {running.token}"} | {key.replace("_", "-"): headers[key] for key in headers}
    url = running.url + path
    async with aiohttp.ClientSession() as client, client.request(method, url, ssl=context, headers=given) as response:
        return response.status, {key.lower(): value for key, value in response.headers.items()}, await response.read()


def port_of(running: RunningServer) -> int:
    return int(running.url.rpartition(":")[2])


def shown(port: int, name: str | None, address: str = "127.0.0.1") -> x509.Certificate:
    """Return the serving certificate for the server name *name*."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    plain = socket.create_connection((address, port), timeout=10)
    with plain, context.wrap_socket(plain, server_hostname=name) as wrapped:
        return x509.load_der_x509_certificate(wrapped.getpeercert(binary_form=True) or b"")


def names_in(certificate: x509.Certificate) -> list[str]:
    alternative = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(item.value) for item in alternative]


def files(directory: Path, name: str, *names: str, authority: KeyPair | None = None) -> tuple[Path, Path]:
    """Write a certificate for *name* and return the paths of certificate and key."""
    pair = issue(authority or generate_ca("test"), name, names=names, server=True)
    certificate, key = directory / f"{name}.crt", directory / f"{name}.key"
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    return certificate, key


@pytest.mark.row("opt.bind-address", "opt.secure-port", "opt.advertise-address")
async def test_bind_and_advertise_addresses_are_used(tmp_path: Path) -> None:
    port = free_port()
    options = (f"--secure-port={port}", "--bind-address=127.0.0.2", "--advertise-address=127.0.0.9")
    running = await start(tmp_path / "data", *options)
    try:
        assert running.url == f"https://127.0.0.9:{port}"
        certificate = await asyncio.to_thread(shown, port, None, "127.0.0.2")
        assert {"127.0.0.2", "127.0.0.9"} <= set(names_in(certificate))
        with pytest.raises(ConnectionRefusedError):
            await asyncio.to_thread(shown, port, None, "127.0.0.1")
        endpoints = running.store.collection("core/endpoints").get("default/kubernetes")
        assert endpoints is not None and b'"ip":"127.0.0.9"' in endpoints.data
    finally:
        await running.stop()


@pytest.mark.row("opt.bind-address", "opt.advertise-address")
@pytest.mark.parametrize("options", [(), ("--bind-address=",), ("--bind-address=0.0.0.0",)])
async def test_default_listens_on_all_interfaces(tmp_path: Path, options: tuple[str, ...]) -> None:
    running = await startup.start(parse([f"--data-dir={tmp_path}", "--free-port", *options]))
    try:
        for local in ("127.0.0.1", "127.0.0.3"):
            await asyncio.to_thread(shown, port_of(running), None, local)
        reported = running.url.removeprefix("https://").rpartition(":")[0]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(("192.0.2.1", 9))
                expected = probe.getsockname()[0]
            except OSError:
                expected = "127.0.0.1"
        assert reported == expected
        assert (await send(running, "GET", "/api/v1/nodes"))[0] == 200  # the certificate includes that address
    finally:
        await running.stop()


@pytest.mark.row("opt.advertise-address")
async def test_certificate_for_the_default_address_is_generated_once(tmp_path: Path) -> None:
    options = parse([f"--data-dir={tmp_path}", "--free-port"])
    seen = []
    for _ in range(2):
        running = await startup.start(options)
        seen.append((tmp_path / "certs" / "apiserver.crt").read_bytes())
        await running.stop()
    assert seen[0] == seen[1]


@pytest.mark.row("opt.advertise-address")
def test_without_a_network_loopback_is_advertised(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "apiserver_stub", f"--data-dir={tmp_path}", "--free-port"]
    alone = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    process = subprocess.Popen([*alone, *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().removeprefix("Serving on ").strip()
        assert url.startswith("https://127.0.0.1:")
        token = json.loads((tmp_path / "ready.json").read_text())["token"]
        curl = ["curl", "--silent", "--fail", "--cacert", str(tmp_path / "certs" / "ca.crt")]
        inside = ["nsenter", f"--target={process.pid}", "--net"]
        subprocess.run(
            [*inside, *curl, "--header", f"Authorization: Bearer {token}", f"{url}/readyz"], timeout=30, check=True
        )
    finally:
        process.terminate()
        process.communicate(timeout=30)


@pytest.mark.row("opt.secure-port")
def test_invalid_port_is_rejected() -> None:
    with pytest.raises(OptionsError, match="--secure-port 70000 must be between 1 and 65535"):
        parse(["--secure-port=70000"])


@pytest.mark.row("opt.external-hostname")
async def test_external_host_name_is_in_certificate_and_addresses(tmp_path: Path) -> None:
    running = await start(tmp_path / "data", "--external-hostname=api.example")
    try:
        assert "api.example" in names_in(await asyncio.to_thread(shown, port_of(running), None))
        _, _, body = await send(running, "GET", "/.well-known/openid-configuration")
        assert json.loads(body)["jwks_uri"].startswith("https://api.example:")
    finally:
        await running.stop()


@pytest.mark.parametrize(
    ("option", "first", "second"),
    [
        pytest.param("port", "127.0.0.1", "127.0.0.1", marks=pytest.mark.row("opt.permit-port-sharing")),
        pytest.param("address", "0.0.0.0", "127.0.0.1", marks=pytest.mark.row("opt.permit-address-sharing")),
    ],
)
async def test_port_sharing_requires_the_option(tmp_path: Path, option: str, first: str, second: str) -> None:
    for permitted in (True, False):
        port = free_port()
        sharing = f"--permit-{option}-sharing={str(permitted).lower()}"
        data = tmp_path / str(permitted)
        options = (f"--secure-port={port}", sharing)
        one = await start(data / "one", f"--bind-address={first}", *options)
        try:
            if permitted:
                await (await start(data / "two", f"--bind-address={second}", *options)).stop()
            else:
                with pytest.raises(OSError, match="in use"):
                    await start(data / "two", f"--bind-address={second}", *options)
        finally:
            await one.stop()


@pytest.mark.row("opt.cors-allowed-origins")
async def test_cors_allows_configured_origins(tmp_path: Path) -> None:
    running = await start(tmp_path / "data", r"--cors-allowed-origins=//app[.]example(:\d+)?$")
    try:
        origin = "https://app.example:8443"
        code, headers, body = await send(running, "OPTIONS", "/api/v1/pods", Origin=origin, Authorization="")
        assert (code, body) == (204, b"")
        assert headers["access-control-allow-origin"] == origin
        assert headers["access-control-allow-methods"] == "POST, GET, OPTIONS, PUT, DELETE, PATCH"
        assert headers["access-control-allow-credentials"] == "true"
        code, headers, _ = await send(running, "GET", "/api/v1/pods", Origin=origin)
        assert (code, headers["access-control-allow-origin"]) == (200, origin)
        for other in ("https://evil.example", "https://app.example.evil"):
            code, headers, _ = await send(running, "GET", "/api/v1/pods", Origin=other)
            assert (code, "access-control-allow-origin" in headers) == (200, False)
    finally:
        await running.stop()


@pytest.mark.row("opt.cors-allowed-origins")
@pytest.mark.parametrize("origin", ["app.example", "^app", "app$", "//(app$"])
def test_unpinned_cors_origin_is_rejected(origin: str) -> None:
    with pytest.raises(OptionsError, match="--cors-allowed-origins has an invalid regular expression"):
        parse([f"--cors-allowed-origins={origin}"])


@pytest.mark.row("opt.strict-transport-security-directives")
async def test_every_response_has_the_hsts_directives(tmp_path: Path) -> None:
    running = await start(tmp_path / "data", "--strict-transport-security-directives=max-age=3600,includeSubDomains")
    try:
        for path in ("/api/v1/pods", "/nope", "/healthz", "/api/v1/pods?watch=1&timeoutSeconds=1"):
            _, headers, _ = await send(running, "GET", path)
            assert headers["strict-transport-security"] == "max-age=3600; includeSubDomains"
    finally:
        await running.stop()
    with pytest.raises(OptionsError, match="--strict-transport-security-directives invalid"):
        parse(["--strict-transport-security-directives=max-age"])


@pytest.mark.row("opt.tls-sni-cert-key")
async def test_sni_selects_the_certificate(tmp_path: Path) -> None:
    authority = generate_ca("test")
    pairs = [
        (*files(tmp_path, "wild", "*.example.com", "10.0.0.1", authority=authority), ""),
        (*files(tmp_path, "exact", "b.example.com", authority=authority), ""),
        (*files(tmp_path, "late", "b.example.com", "d.example.com", authority=authority), ""),
        (
            *files(tmp_path, "named", "inside.example", authority=authority),
            ":*.test,c.example.com,d.example.com,127.0.0.1",
        ),
    ]
    options = [f"--tls-sni-cert-key={certificate},{key}{names}" for certificate, key, names in pairs]
    running = await start(tmp_path / "data", *options)
    try:
        for requested, expected in (
            ("a.example.com", "wild"),
            ("A.Example.com", "wild"),
            ("b.example.com", "exact"),
            ("c.example.com", "named"),
            ("d.example.com", "named"),
            ("x.test", "named"),
            ("deep.x.test", "nodeagent-apiserver"),
            ("inside.example", "nodeagent-apiserver"),
            ("other.example", "nodeagent-apiserver"),
            (None, "named"),
        ):
            certificate = await asyncio.to_thread(shown, port_of(running), requested)
            assert certificate.subject.rfc4514_string() == f"CN={expected}", requested
        files(tmp_path, "exact", "renewed.example.com", authority=authority)
        async with asyncio.timeout(10):
            while (
                await asyncio.to_thread(shown, port_of(running), "renewed.example.com")
            ).subject.rfc4514_string() != ("CN=exact"):
                await asyncio.sleep(0.1)
    finally:
        await running.stop()


@pytest.mark.row("opt.tls-sni-cert-key")
async def test_invalid_sni_certificate_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(OptionsError, match="expected comma separated certificate and key file paths"):
        parse(["--tls-sni-cert-key=one"])
    with pytest.raises(TlsError, match="failed to load SNI cert and key"):
        await start(tmp_path / "data", "--tls-sni-cert-key=nope,nope")


@pytest.mark.row("opt.tls-cert-file", "opt.tls-private-key-file")
async def test_configured_certificate_is_presented(tmp_path: Path) -> None:
    certificate, key = files(tmp_path, "mine", "127.0.0.1")
    running = await start(
        tmp_path / "data", f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}", "--cert-dir=/proc/nope"
    )
    try:
        found = await asyncio.to_thread(shown, port_of(running), None)
        assert found == x509.load_pem_x509_certificate(certificate.read_bytes())
    finally:
        await running.stop()
    with pytest.raises(OptionsError, match="missing filename for serving cert"):
        parse([f"--tls-cert-file={certificate}"])
    with pytest.raises(OptionsError, match="missing filename for serving cert"):
        parse([f"--tls-private-key-file={key}"])
    _, other = files(tmp_path, "other", "127.0.0.1")
    with pytest.raises(TlsError):
        await start(tmp_path / "data", f"--tls-cert-file={certificate}", f"--tls-private-key-file={other}")


@pytest.mark.row("opt.cert-dir")
async def test_generated_certificate_is_reused_with_the_same_ca(tmp_path: Path) -> None:
    certs, seen = tmp_path / "certs", []
    for data in ("data", "data", "other"):
        running = await start(tmp_path / data, f"--cert-dir={certs}")
        try:
            assert (await send(running, "GET", "/readyz"))[0] == 200  # it is verified with the CA of the data directory
            seen.append(await asyncio.to_thread(shown, port_of(running), None))
        finally:
            await running.stop()
        chain = x509.load_pem_x509_certificates((certs / "apiserver.crt").read_bytes())
        authority = x509.load_pem_x509_certificate((tmp_path / data / "certs" / "ca.crt").read_bytes())
        assert chain == [seen[-1], authority]
        assert running.ca_file == tmp_path / data / "certs" / "ca.crt"
    assert seen[0] == seen[1] != seen[2]
    assert {path.name for path in certs.iterdir()} == {"apiserver.crt", "apiserver.key"}
    assert (certs / "apiserver.key").stat().st_mode & 0o777 == 0o600


@pytest.mark.row("opt.cert-dir")
async def test_provided_certificate_in_cert_dir_is_used(tmp_path: Path) -> None:
    for path, name in zip(files(tmp_path, "mine", "127.0.0.1"), ("apiserver.crt", "apiserver.key"), strict=True):
        path.rename(tmp_path / name)
    running = await start(tmp_path / "data", f"--cert-dir={tmp_path}")
    try:
        found = await asyncio.to_thread(shown, port_of(running), None)
        assert found == x509.load_pem_x509_certificate((tmp_path / "apiserver.crt").read_bytes())
        assert names_in(found) == ["127.0.0.1"]
    finally:
        await running.stop()


@pytest.mark.row("opt.cert-dir")
def test_unwritable_directory_is_reported_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "apiserver_stub", *usual_options(tmp_path, "--cert-dir=/proc/nope")]

    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert "cannot write the serving certificate to /proc/nope: No such file or directory" in line
    assert "--cert-dir" in line


@pytest.mark.row("opt.cert-dir")
def test_default_cert_dir_is_used(tmp_path: Path) -> None:
    """Run in a separate mount namespace, so that the host is not changed."""
    apart = 'mount -t tmpfs none /var/lib && mount -t tmpfs none /run && exec "$@"'
    command = [sys.executable, "-m", "apiserver_stub", "--bind-address=127.0.0.1", "--free-port"]
    process = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", apart, "sh", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().removeprefix("Serving on ").strip()
        inside = Path(f"/proc/{process.pid}/root")
        found = shown(int(url.rpartition(":")[2]), None)
        assert found == x509.load_pem_x509_certificate((inside / "run/kubernetes/apiserver.crt").read_bytes())
        assert {path.name for path in (inside / "run/kubernetes").iterdir()} == {"apiserver.crt", "apiserver.key"}
        data = inside / "var/lib/nodeagent-apiserver"
        assert json.loads((data / "ready.json").read_text())["caFile"] == "/var/lib/nodeagent-apiserver/certs/ca.crt"
        assert {path.name for path in (data / "certs").iterdir()} > {"ca.crt", "ca.key"}
        assert not (data / "certs" / "apiserver.crt").exists()
    finally:
        process.terminate()
        process.communicate(timeout=30)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=10)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self._path))


@pytest.mark.row("opt.debug-socket-path")
async def test_debug_socket_serves_profiles_without_credentials(tmp_path: Path) -> None:
    path = tmp_path / "debug.sock"
    running = await start(tmp_path / "data", f"--debug-socket-path={path}", "--profiling=false")

    def get(url: str) -> tuple[int, bytes]:
        connection = UnixConnection(path)
        connection.request("GET", url)
        response = connection.getresponse()
        reply = response.status, response.read()
        connection.close()
        return reply

    try:
        code, body = await asyncio.to_thread(get, "/debug/pprof/threadcreate?debug=1")
        assert code == 200 and b"MainThread" in body
        assert (await asyncio.to_thread(get, "/api/v1/secrets"))[0] == 404
        assert (await send(running, "GET", "/debug/pprof/goroutine"))[0] == 404
        assert path.stat().st_mode & 0o777 == 0o600
    finally:
        await running.stop()


@pytest.mark.row("opt.contention-profiling")
async def test_block_profile_contains_event_loop_delays(tmp_path: Path) -> None:
    for option, found in (("--contention-profiling", True), ("--contention-profiling=false", False)):
        running = await start(tmp_path / "data", option)
        try:
            hold_the_loop_up()
            await asyncio.sleep(0.05)
            code, _, body = await send(running, "GET", "/debug/pprof/block")
            profile = gzip.decompress(body)
            assert (code, b"hold_the_loop_up" in profile) == (200, found)
            assert b"contentions" in profile or not found
        finally:
            await running.stop()


def hold_the_loop_up() -> None:
    subprocess.run([sys.executable, "-c", "import time; time.sleep(0.1)"], check=True)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    try:
        code = program.main(arguments)
    except SystemExit as end:
        code = int(end.code or 0)
    return code, capsys.readouterr()


@pytest.mark.row("opt.version")
async def test_version_flag_prints_or_sets_the_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--version")[1].out == f"nodeagent-apiserver v1.29.1+nodeagent-{__version__}\n"
    assert run(capsys, "--version=raw") == (0, ("v1.29.1\n", ""))
    code, printed = run(capsys, "--version=v1.2.3")
    assert code == 2
    assert 'version "v1.2.3" must match major/minor/patch of default version "v1.29.1"' in printed.err
    assert run(capsys, "--version=maybe")[0] == 2
    running = await start(tmp_path / "data", "--version=v1.29.1-mine")
    try:
        assert json.loads((await send(running, "GET", "/version"))[2])["gitVersion"] == "v1.29.1-mine"
    finally:
        await running.stop()


@pytest.mark.row("opt.help")
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_lists_every_option_in_its_group(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, printed = run(capsys, option)
    assert code == 0
    for part in ("Serving:", "Audit:", "Metrics:", "--audit-log-path VALUE", "--secure-port NUMBER", "--version"):
        assert part in printed.out
    assert "SUPPRESS" not in printed.out
    assert max(map(len, printed.out.splitlines())) <= 100


def ended(server: Server) -> str:
    """Stop *server* and return what it logged."""
    server.process.terminate()
    text = server.process.communicate(timeout=20)[1]
    server.stop()
    return str(text)


@pytest.mark.parametrize(
    ("option", "shown"),
    [
        pytest.param("-v=3", True, marks=pytest.mark.row("opt.v")),
        pytest.param("--v=2", False, marks=pytest.mark.row("opt.v")),
        pytest.param("--vmodule=httplog=3", True, marks=pytest.mark.row("opt.vmodule")),
        pytest.param("--vmodule=metrics=3", False, marks=pytest.mark.row("opt.vmodule")),
    ],
)
def test_requests_are_logged_at_high_verbosity(tmp_path: Path, option: str, shown: bool) -> None:
    server = Server(tmp_path / "data", option)
    server.api().ok("GET", "/version")
    assert ('"HTTP"' in ended(server)) is shown


@pytest.mark.row("opt.log-flush-frequency", "opt.logging-format")
def test_log_lines_are_flushed_early(tmp_path: Path) -> None:
    server = Server(tmp_path / "data", "--log-flush-frequency=10s", "--logging-format=text", "-v=3")
    api = server.api()
    api.ok("GET", "/version")
    try:
        code, _, body = api.raw("PUT", "/debug/flags/v", b"0", content_type="text/plain")
        assert (code, body) == (200, b"successfully set klog.logging.verbosity to 0")
        assert api.raw("GET", "/debug/flags/v")[0] == 406
        assert api.raw("PUT", "/debug/flags/v", b"x", content_type="text/plain")[0] == 400
        assert server.process.stderr is not None
        lines = iter(server.process.stderr.readline, "")
        assert any('"HTTP"' in line for line in lines)  # while it runs
    finally:
        server.stop()


@pytest.mark.row("opt.logging-format", "opt.log-flush-frequency", "opt.v", "opt.vmodule")
@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--logging-format=json", "Unsupported log format"),
        ("--log-flush-frequency=soon", 'time: invalid duration "soon"'),
        ("--v=-1", "is not between"),
        ("--v=many", "invalid syntax"),
        ("--vmodule=foo", "pattern=N"),
    ],
)
def test_invalid_logging_options_prevent_start(
    tmp_path: Path, option: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed = run(capsys, f"--data-dir={tmp_path}", option)
    assert code == 2
    assert message in printed.err
