"""Tests for HTTP/2: responses equal those over HTTP/1.1, with concurrent streams and limits."""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from h2.errors import ErrorCodes

from apiserver_stub.options import OptionsError, parse
from nodeagent.base.tls import KeyPair, generate_ca, issue

from .conftest import Api, Server
from .http2_client import WAIT_SECONDS, Http2Client

STREAMS = 8
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def clients_ca() -> KeyPair:
    return generate_ca("clients")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, clients_ca: KeyPair) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("http2")
    authority = directory / "clients.crt"
    authority.write_bytes(clients_ca.certificate)
    named = issue(clients_ca, "named", names=["named.example"], server=True)
    (directory / "named.crt").write_bytes(named.certificate)
    (directory / "named.key").write_bytes(named.key)
    found = Server(
        directory / "data",
        f"--http2-max-streams-per-connection={STREAMS}",
        f"--client-ca-file={authority}",
        f"--tls-sni-cert-key={directory}/named.crt,{directory}/named.key",
    )
    yield found
    assert found.stop() == 0


@pytest.fixture
def client(server: Server) -> Iterator[Http2Client]:
    with Http2Client(server.ready) as found:
        yield found


def watches(api: Api) -> int:
    """Return the number of config map watches of the server."""
    text = api.raw("GET", "/metrics")[2].decode()
    lines = [line for line in text.splitlines() if line.startswith("apiserver_longrunning_requests{")]
    return sum(int(float(line.split()[-1])) for line in lines if 'resource="configmaps"' in line)


def until(holds: Any) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def curl(server: Server, *arguments: str) -> str:
    command = [
        "curl",
        "-sS",
        "--cacert",
        server.ready["caFile"],
        "-H",
        f"Authorization: Bearer {server.ready['token']}",
    ]
    return subprocess.run([*command, *arguments], capture_output=True, check=True, text=True, timeout=60).stdout


@pytest.mark.row("opt.http2-max-streams-per-connection")
def test_protocols_are_negotiated_and_return_the_same_response(server: Server, api: Api) -> None:
    url = server.ready["url"] + "/version"
    reported = ["-w", "%{stderr}%{http_version}"]
    responses = [curl(server, how, url, *reported) for how in ("--http2", "--http1.1")]
    assert [json.loads(response) for response in responses] == 2 * [api.ok("GET", "/version")]
    versions = [curl(server, how, url, "-o", "/dev/null", "-w", "%{http_version}") for how in ("--http2", "--http1.1")]
    assert versions == ["2", "1.1"]


def test_http_2_can_be_disabled(tmp_path: Path) -> None:
    server = Server(tmp_path / "data", "--disable-http2-serving")
    try:
        assert (
            curl(server, "--http2", server.ready["url"] + "/version", "-o", "/dev/null", "-w", "%{http_version}")
            == "1.1"
        )
    finally:
        server.stop()


def test_objects_are_written_and_read(client: Http2Client, api: Api) -> None:
    text = "x" * 200_000
    created = client.request("POST", MAPS, {"metadata": {"name": "one"}, "data": {"a": text}})
    assert created.code == 201
    assert created.headers["content-type"] == "application/json"
    changed = {**created.json(), "data": {"b": text}}
    assert client.request("PUT", f"{MAPS}/one", changed).json()["data"] == {"b": text}
    assert client.request("GET", f"{MAPS}/one").json() == api.ok("GET", f"{MAPS}/one")
    assert client.request("HEAD", "/version").body == b""
    assert client.request("DELETE", f"{MAPS}/one").code == 200
    missing = client.request("GET", f"{MAPS}/one")
    assert (missing.code, missing.json()["reason"]) == (404, "NotFound")
    too_long = client.request("POST", MAPS, {"metadata": {"name": "two"}, "data": {"a": "x" * (4 << 20)}})
    assert too_long.code == 413


def test_kubectl_negotiates_http_2(server: Server) -> None:
    pod = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "by-kubectl"}}
    assert "created" in server.kubectl("apply", "-f", "-", stdin=json.dumps(pod))
    reported = server.kubectl("get", "configmap", "by-kubectl", "-o", "name", env={"GODEBUG": "http2debug=1"})
    assert "configmap/by-kubectl" in reported
    assert "http2: Transport received HEADERS" in reported
    assert f"MAX_CONCURRENT_STREAMS={STREAMS}" in reported, reported
    assert "deleted" in server.kubectl("delete", "configmap", "by-kubectl", "--wait")


def test_client_certificate_authenticates_the_user(server: Server, clients_ca: KeyPair, tmp_path: Path) -> None:
    pair = issue(clients_ca, "carol", organizations=["system:masters"], client=True)
    certificate, key = tmp_path / "c.crt", tmp_path / "c.key"
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    with Http2Client(server.ready, pair=(certificate, key), token=False) as client:
        found = client.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review).json()
        assert found["status"]["userInfo"]["username"] == "carol"


def test_sni_certificates_offer_http_2(server: Server, clients_ca: KeyPair, tmp_path: Path) -> None:
    authority = tmp_path / "ca.crt"
    authority.write_bytes(clients_ca.certificate)
    with Http2Client({**server.ready, "caFile": str(authority)}, name="named.example") as client:
        assert client.request("GET", "/version").code == 200


def test_unread_response_does_not_delay_other_streams(server: Server, api: Api) -> None:
    names = [f"long-{number}" for number in range(12)]
    for name in names:
        api.ok(
            "POST",
            MAPS,
            {"metadata": {"name": name, "labels": {"long": "yes"}}, "data": {"a": random.randbytes(60_000).hex()}},
        )
    path = f"{MAPS}?labelSelector=long%3Dyes"
    window = 10_000
    with Http2Client(server.ready, window=window, reads=False) as client:
        number = client.begin("GET", path)
        response = client.responses[number]
        client.wait(lambda: len(response.body) == window)
        for _ in range(5):
            assert client.request("GET", "/version").code == 200
        assert len(response.body) == window and not response.done
        client.read(number, 8 << 20)
        assert client.finish(number).json()["items"] == api.ok("GET", path)["items"]
    assert len(response.body) > 1 << 20
    for name in names:
        api.ok("DELETE", f"{MAPS}/{name}")


def test_many_requests_share_a_connection(client: Http2Client, api: Api) -> None:
    paths = ["/apis/events.k8s.io", "/apis/coordination.k8s.io", "/version", "/apis/none"] * 2
    expected = [api.raw("GET", path)[2] for path in paths]
    for _ in range(20):
        numbers = [client.begin("GET", path) for path in paths]
        found = [client.finish(number) for number in numbers]
        assert [response.code for response in found] == [200, 200, 200, 404] * 2
        assert [bytes(response.body) for response in found] == expected
    assert client.goaway is None


@pytest.mark.row("opt.http2-max-streams-per-connection")
def test_streams_beyond_the_limit_are_rejected(client: Http2Client, api: Api) -> None:
    client.request("GET", "/version")
    assert client.h2.remote_settings.max_concurrent_streams == STREAMS
    client.h2.remote_settings.max_concurrent_streams = 100  # as a client that ignores the limit
    client.h2.remote_settings.acknowledge()
    numbers = [client.begin("GET", f"{MAPS}?watch=true") for _ in range(STREAMS)]
    client.wait(lambda: all(client.responses[number].code == 200 for number in numbers))
    assert client.request("GET", "/version").reset == ErrorCodes.REFUSED_STREAM
    until(lambda: watches(api) == STREAMS)

    client.cancel(numbers[0])

    until(lambda: watches(api) == STREAMS - 1)  # the reset ends the watch
    assert client.request("GET", "/version").code == 200
    created = api.ok("POST", MAPS, {"metadata": {"name": "seen"}})
    for number in numbers[1:]:
        response = client.responses[number]
        client.wait(lambda response=response: b'"seen"' in response.body)
        assert not response.done
    api.ok("DELETE", f"{MAPS}/{created['metadata']['name']}")
    client.socket.close()
    until(lambda: watches(api) == 0)


def test_upgrade_requests_are_rejected(client: Http2Client) -> None:
    assert client.request("GET", "/api/v1/namespaces/default/pods/none/exec?command=ls").code in (400, 404)
    head = [(":method", "CONNECT"), (":authority", "api:1")]
    number = client.h2.get_next_available_stream_id()
    response = client.responses[number] = type(client.responses[1])()
    client.h2.send_headers(number, head)
    client.send()
    assert client.finish(number).code == 405
    assert response.ended or response.reset == ErrorCodes.NO_ERROR


@pytest.mark.parametrize("method", ["FOO", "get", "OPTIONS", "TRACE"])
def test_unknown_method_is_not_allowed(client: Http2Client, method: str) -> None:
    assert [client.request(method, path).code for path in ("/version", MAPS, "*")] == [405, 405, 404]


def test_garbage_closes_only_its_connection(server: Server, client: Http2Client) -> None:
    chance = random.Random(7)
    for _ in range(20):
        with Http2Client(server.ready) as broken:
            payload = chance.randbytes(40)
            broken.socket.sendall(len(payload).to_bytes(3, "big") + bytes([1, 4, 0, 0, 0, 1]) + payload)
            broken.socket.sendall(chance.randbytes(60))
            broken.wait(lambda broken=broken: broken.closed or broken.goaway is not None)
    assert client.request("GET", "/version").code == 200
    assert server.process.poll() is None


def test_unauthenticated_response_closes_the_connection(server: Server) -> None:
    for path, code in (("/readyz", 200), (MAPS, 403)):
        with Http2Client(server.ready, token=False) as anonymous:
            assert anonymous.request("GET", path).code == code
            anonymous.wait(lambda anonymous=anonymous: anonymous.closed)
            assert anonymous.goaway is not None and anonymous.goaway.error_code == ErrorCodes.NO_ERROR
    with Http2Client({**server.ready, "token": "wrong"}) as impostor:
        assert impostor.request("GET", "/readyz").code == 401
        impostor.wait(lambda: impostor.closed)


def test_head_of_a_long_response_has_no_body(client: Http2Client) -> None:
    response = client.request("HEAD", "/openapi/v2")
    assert (response.code, bytes(response.body), response.ended) == (200, b"", True)


@pytest.mark.row("opt.goaway-chance")
def test_goaway_chance_closes_http_2_connections(tmp_path: Path) -> None:
    server = Server(tmp_path / "data", "--goaway-chance=0.02")
    try:
        with Http2Client(server.ready) as client:
            watch = client.begin("GET", f"{MAPS}?watch=true")
            for _ in range(3000):  # the probability that none receives it is 10^-26
                response = client.request("GET", "/version")
                assert (response.code, response.reset) == (200, None)
                assert response.json()["major"] == "1"
                if client.goaway is not None:
                    break
            assert client.goaway is not None
            assert client.goaway.error_code == ErrorCodes.NO_ERROR
            assert client.goaway.last_stream_id == max(client.responses)
            assert client.request("GET", "/version").reset == ErrorCodes.REFUSED_STREAM
            server.api().ok("POST", MAPS, {"metadata": {"name": "seen"}})
            client.wait(lambda: b'"seen"' in client.responses[watch].body)  # streams in flight continue
            client.cancel(watch)
            client.wait(lambda: client.closed)
        api = server.api()
        for _ in range(300):  # HTTP/1.1 connections stay open
            assert "connection" not in api.raw("GET", "/version")[1]
    finally:
        server.stop()


def test_shutdown_sends_goaway(tmp_path: Path) -> None:
    gate = "--feature-gates=UnauthenticatedHTTP2DOSMitigation=false"
    server = Server(tmp_path / "data", gate)
    try:
        with Http2Client(server.ready, token=False) as anonymous:  # whose connection the gate would close
            assert [anonymous.request("GET", "/readyz").code for _ in range(3)] == [200] * 3
            assert anonymous.goaway is None
        with Http2Client(server.ready) as client:
            watch = client.begin("GET", f"{MAPS}?watch=true")
            client.wait(lambda: client.responses[watch].code == 200)
            server.process.terminate()
            client.wait(lambda: client.goaway is not None)
            client.wait(lambda: client.closed)
            assert client.responses[watch].done
            assert client.goaway is not None and client.goaway.error_code == ErrorCodes.NO_ERROR
        assert server.process.wait(WAIT_SECONDS) == 0
    finally:
        server.stop()


@pytest.mark.row("opt.goaway-chance")
@pytest.mark.parametrize("chance", ["-0.001", "0.03", "nan"])
def test_goaway_chance_out_of_range_is_rejected(chance: str) -> None:
    with pytest.raises(OptionsError, match="--goaway-chance can not be less than 0 or greater than"):
        parse(["--http2-max-streams-per-connection=10", f"--goaway-chance={chance}"])


@pytest.mark.row("opt.goaway-chance")
def test_goaway_chance_without_http_2_is_rejected() -> None:
    with pytest.raises(OptionsError, match="--goaway-chance requires HTTP/2; omit --disable-http2-serving"):
        parse(["--goaway-chance=0.01", "--disable-http2-serving"])
    assert parse(["--goaway-chance=0.01"]).goaway_chance == 0.01


@pytest.mark.row("opt.http2-max-streams-per-connection")
@pytest.mark.parametrize(("value", "streams"), [("0", 100), ("-1", 100), ("250", 250)])
def test_number_of_streams_has_a_default(value: str, streams: int) -> None:
    assert parse([f"--http2-max-streams-per-connection={value}"]).http2_streams == streams
    assert parse(["--disable-http2-serving"]).http2_streams == 0


def test_cipher_suites_must_include_those_of_http_2() -> None:
    suite = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
    with pytest.raises(OptionsError, match="HTTP/2 requires one of TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 and"):
        parse([f"--tls-cipher-suites={suite}"])
    parse(["--disable-http2-serving", f"--tls-cipher-suites={suite}"])
    parse([f"--tls-cipher-suites={suite},TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"])
    parse([f"--tls-cipher-suites={suite}", "--tls-min-version=VersionTLS13"])
