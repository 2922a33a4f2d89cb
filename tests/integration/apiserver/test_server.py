"""Tests for the server process: authentication, discovery, persistence and limits."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from nodeagent import __version__
from nodeagent.base import kubeconfig, tls
from nodeagent.base.atomic_file import write_private

from .conftest import Api, Server


def test_unauthenticated_clients_reach_only_health_and_version(server: Server) -> None:
    anonymous = server.api(None)

    for path in ("/healthz", "/livez", "/readyz"):
        _, headers, body = anonymous.raw("GET", path)
        assert (body, "server" in headers) == (b"ok", False)  # library versions are not exposed
    assert anonymous.ok("GET", "/version")["gitVersion"] == f"v1.29.1+nodeagent-{__version__}"
    for method, path in (
        ("GET", "/api"),
        ("GET", "/metrics"),
        ("GET", "/api/v1/nodes"),
        ("POST", "/healthz"),
        ("GET", "/openapi/v3"),
        ("DELETE", "/api/v1/namespaces/default/pods"),
    ):
        code, rejection = anonymous.call(method, path)
        assert (code, rejection["reason"]) == (403, "Forbidden"), path
    message = anonymous.call("GET", "/api/v1/namespaces/default/secrets/s")[1]["message"]
    assert message == (
        'secrets "s" is forbidden: User "system:anonymous" cannot get resource "secrets" in API group "" '
        'in the namespace "default"'
    )


def test_invalid_token_is_rejected(server: Server) -> None:
    for token in ("wrong", "a.b.c", "eyJhbGciOiJub25lIn0.e30."):
        code, rejection = server.api(token).call("GET", "/healthz")
        assert (code, rejection["message"]) == (401, "Unauthorized")


def test_node_kubeconfig_has_the_identity_of_the_node(server: Server) -> None:
    token = kubeconfig.load(Path(server.ready["nodeKubeconfig"])).authorization().removeprefix("Bearer ")
    node = server.api(token)

    who = node.ok("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})["status"]["userInfo"]

    assert who["username"].startswith("system:node:")
    assert "system:nodes" in who["groups"]
    node.ok("GET", "/api/v1/nodes")


def test_secret_files_are_readable_only_by_the_owner(server: Server) -> None:
    files = ["admin.kubeconfig", "node.kubeconfig", "tokens.csv", "service-account.key", "store.db", "ready.json"]
    for name in [*files, "certs/ca.key", "certs/apiserver.key"]:
        assert stat.S_IMODE((server.data_dir / name).stat().st_mode) == 0o600, name


def test_discovery_lists_every_resource(api: Api) -> None:
    groups = [group["name"] for group in api.ok("GET", "/apis")["groups"]]
    assert {"events.k8s.io", "coordination.k8s.io", "authentication.k8s.io"} <= set(groups)
    pods = next(item for item in api.ok("GET", "/api/v1")["resources"] if item["name"] == "pods")
    assert (pods["kind"], pods["shortNames"], pods["namespaced"]) == ("Pod", ["po"], True)
    events = next(item for item in api.ok("GET", "/api/v1")["resources"] if item["name"] == "events")
    assert events["storageVersionHash"] == "r2yiGXH7wu8="
    leases = api.ok("GET", "/apis/coordination.k8s.io/v1")["resources"][0]
    assert leases["storageVersionHash"] == "gqkMMb/YqFM="
    slices = api.ok("GET", "/apis/discovery.k8s.io/v1")["resources"][0]
    assert slices["storageVersionHash"] == "Nx3SIv6I0mE="
    accept = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
    _, headers, body = api.raw("GET", "/apis", headers={"Accept": accept})
    assert headers["content-type"] == accept
    assert [item["metadata"]["name"] for item in json.loads(body)["items"]] == groups


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/nope", 404),
        ("GET", "/apis/nope/v1/things", 404),
        ("GET", "/api/v1/nopes", 404),
        ("GET", "/api/v1/namespaces/default/pods/p/nope", 404),
        ("POST", "/api/v1/pods", 405),
        ("PUT", "/api/v1/namespaces/default/pods", 405),
        ("PATCH", "/api/v1/namespaces/default/pods", 405),
        ("POST", "/version", 405),
        ("POST", "/api/v1/namespaces/default/pods/p", 405),
        ("DELETE", "/api/v1/pods", 405),
        ("OPTIONS", "/api/v1/pods", 405),
        ("DELETE", "/api/v1/namespaces", 405),
        ("GET", "/api/v1/namespaces/default/pods/%2e%2e", 400),
        ("GET", "/api/v1/pods?limit=abc", 400),
        ("GET", "/api/v1/pods?resourceVersion=abc", 500),
        ("GET", "/api/v1/pods?labelSelector=a%3Db%3Dc", 400),
        ("GET", "/api/v1/pods?continue=nonsense", 400),
        ("GET", "/api/v1/pods?watch=1&resourceVersion=abc", 500),
    ],
)
def test_invalid_paths_and_methods_return_their_error_code(api: Api, method: str, path: str, code: int) -> None:
    assert api.call(method, path)[0] == code


def test_bodies_are_limited_and_decoded_by_content_type(api: Api) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    big = {"metadata": {"name": "big"}, "data": {"k": "x" * (3 << 20)}}
    code, rejection = api.call("POST", path, big)
    assert (code, rejection["message"]) == (413, "Request entity too large: limit is 3145728")
    api.close()
    assert api.call("POST", path, b"{", content_type="application/json")[0] == 400
    assert api.call("POST", path, b"[" * 100_000, content_type="application/json")[0] == 400
    assert api.call("POST", path, b"x", content_type="text/html")[0] == 415
    assert api.call("POST", path, b"a: &a [*a]", content_type="application/yaml")[0] == 400
    made = api.ok("POST", path, b"metadata: {name: from-yaml}\ndata: {k: v}", content_type="application/yaml")
    assert made["data"] == {"k": "v"}
    _, headers, text = api.raw("GET", f"{path}/from-yaml", headers={"Accept": "application/yaml"})
    assert headers["content-type"] == "application/yaml"
    assert b"kind: ConfigMap" in text
    api.ok("DELETE", f"{path}/from-yaml")
    assert api.call("GET", path, headers={"Accept": "text/html"})[0] == 406


def test_expect_continue_is_supported(server: Server) -> None:
    body = json.dumps({"metadata": {"generateName": "asked-"}, "data": {"k": "x" * 5000}})
    command = ["curl", "-s", "--max-time", "5", "--cacert", server.ready["caFile"], "--expect100-timeout", "60"]
    headers = [
        f"Authorization: Bearer {server.ready['token']}",
        "Content-Type: application/json",
        "Expect: 100-continue",
    ]
    for header in headers:
        command += ["-H", header]
    url = f"{server.ready['url']}/api/v1/namespaces/default/configmaps"

    result = subprocess.run([*command, "-d", body, url], capture_output=True, timeout=30, check=True)

    assert json.loads(result.stdout)["kind"] == "ConfigMap"


def test_client_certificate_authenticates_the_user(tmp_path: Path) -> None:
    ca = tls.generate_ca("clients")
    client = tls.issue(ca, "system:node:n9", organizations=["system:nodes"], client=True)
    for name, data in (("ca.crt", ca.certificate), ("c.crt", client.certificate), ("c.key", client.key)):
        write_private(tmp_path / name, data)
    server = Server(tmp_path / "data", "--client-ca-file", str(tmp_path / "ca.crt"), "--anonymous-auth=false")
    try:
        api = server.api(None)
        assert api.call("GET", "/healthz")[0] == 401
        api.close()
        api._context.load_cert_chain(tmp_path / "c.crt", tmp_path / "c.key")
        who = api.ok("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})["status"]["userInfo"]
        assert who["username"] == "system:node:n9"
    finally:
        server.stop()


def test_token_file_authenticates_the_user(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text('abc,alice,u1,"dev,system:masters"\ndef,bob,u2\n')
    server = Server(tmp_path / "data", "--token-auth-file", str(tokens))
    try:
        server.api("abc").ok("GET", "/api/v1/nodes")
        assert server.api("def").call("GET", "/api/v1/nodes")[0] == 403
    finally:
        server.stop()


def test_invalid_options_prevent_start(tmp_path: Path) -> None:
    rejection = ["--secure-port=0", "--bogus"]
    command = [sys.executable, "-m", "apiserver_stub", "--data-dir", str(tmp_path), *rejection]

    result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)

    assert result.returncode == 2
    assert "--secure-port 0 must be between 1 and 65535, inclusive. It cannot be turned off with 0" in result.stderr
    assert "unknown flag: --bogus" in result.stderr


def test_store_and_identity_survive_a_restart(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    path = "/api/v1/namespaces/default/configmaps"
    created = server.api().ok("POST", path, {"metadata": {"name": "a"}})
    server.api().ok("DELETE", f"{path}/a")
    last = int(server.api().ok("GET", path)["metadata"]["resourceVersion"])
    before = server.ready
    assert server.stop() == 0
    assert not (server.data_dir / "ready.json").exists()

    server.start()
    try:
        assert (server.ready["token"], server.ready["caFile"]) == (before["token"], before["caFile"])
        api = server.api()
        again = api.ok("POST", path, {"metadata": {"name": "a"}})
        assert int(again["metadata"]["resourceVersion"]) > last > int(created["metadata"]["resourceVersion"])
        with api.watch(f"{path}?watch=1&resourceVersion={last - 1}") as events:
            gone = next(events)["object"]
        assert (gone["code"], gone["reason"]) == (410, "Expired")
        assert gone["message"].startswith(f"too old resource version: {last - 1} (")
    finally:
        server.stop()


def test_every_acknowledged_write_survives_kill(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    path = "/api/v1/namespaces/default/configmaps"
    try:
        for round_ in range(3):
            acknowledged: dict[str, int] = {}
            writers = [
                threading.Thread(
                    target=_write, args=(server.api(close=False), path, f"r{round_}-w{number}", acknowledged)
                )
                for number in range(8)
            ]
            for writer in writers:
                writer.start()
            time.sleep(0.4)
            end = time.monotonic() + 10
            while len(acknowledged) <= 8 and time.monotonic() < end:
                time.sleep(0.02)
            server.stop(signal.SIGKILL)
            for writer in writers:
                writer.join(10)
            server.start()
            listed = server.api().ok("GET", path)
            found = {item["metadata"]["name"]: int(item["metadata"]["resourceVersion"]) for item in listed["items"]}
            assert len(acknowledged) > 8
            assert acknowledged.items() <= found.items()
            assert int(listed["metadata"]["resourceVersion"]) >= max(found.values())
    finally:
        server.stop()


def test_stalled_watcher_does_not_delay_others(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    path = "/api/v1/namespaces/default/configmaps"
    try:
        api = server.api()
        with api.watch(f"{path}?watch=1&resourceVersion=0"), api.watch(f"{path}?watch=1") as events:
            next(events)
            for number in range(40):
                api.ok("POST", path, {"metadata": {"name": f"big-{number}"}, "data": {"k": "x" * 500_000}})
            seen = set()
            while len(seen) < 40:
                event = next(events)
                if event["object"]["metadata"]["name"].startswith("big-"):
                    seen.add(event["object"]["metadata"]["name"])
    finally:
        server.stop()


def test_expired_events_are_reported_to_watchers(tmp_path: Path) -> None:
    server = Server(tmp_path / "data", "--event-ttl=1s")
    path = "/api/v1/namespaces/default/events"
    try:
        api = server.api()
        event = {"metadata": {"name": "e1"}, "involvedObject": {"namespace": "default"}}
        created = api.ok("POST", path, event)
        with api.watch(f"{path}?watch=1&resourceVersion={created['metadata']['resourceVersion']}") as events:
            expired = next(events)
        assert (expired["type"], expired["object"]["metadata"]["name"]) == ("DELETED", "e1")
        assert api.ok("GET", path)["items"] == []
    finally:
        server.stop()


def test_full_disk_fails_writes_until_space_is_available(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    path = "/api/v1/namespaces/default/configmaps"
    try:
        api = server.api()
        api.ok("POST", path, {"metadata": {"name": "before"}})
        _, hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
        room = (server.data_dir / "store.db-wal").stat().st_size + 300_000
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (room, hard))
        big = {"k": "x" * 100_000}
        codes = [api.call("POST", path, {"metadata": {"name": f"big-{i}"}, "data": big})[0] for i in range(8)]
        assert codes[0] == 201
        assert set(codes) == {201, 503}
        code, rejection = api.call("POST", path, {"metadata": {"name": "full"}, "data": big})
        assert (code, rejection["reason"]) == (503, "ServiceUnavailable")
        assert len(api.ok("GET", path)["items"]) == 2 + codes.count(201)
        assert api.raw("GET", "/readyz")[0] == 500

        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        end = time.monotonic() + 20
        while api.raw("GET", "/readyz")[0] != 200:
            assert time.monotonic() < end, "room again is not noticed"
            time.sleep(0.1)
        api.ok("POST", path, {"metadata": {"name": "after"}, "data": big})
        server.stop(signal.SIGKILL)
        server.start()
        names = {item["metadata"]["name"] for item in server.api().ok("GET", path)["items"]}
        assert {"before", "after", "big-0"} <= names
        assert "full" not in names
    finally:
        server.stop()


def _write(api: Api, path: str, prefix: str, acknowledged: dict[str, int]) -> None:
    """Create objects until the server exits, and record the acknowledged ones."""
    with contextlib.closing(api), contextlib.suppress(OSError, http.client.HTTPException):
        for number in itertools.count():
            name = f"{prefix}-{number}"
            code, response = api.call("POST", path, {"metadata": {"name": name}})
            if code == 201:
                acknowledged[name] = int(response["metadata"]["resourceVersion"])


def test_data_directory_is_private(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    server.stop()

    assert stat.S_IMODE(os.stat(tmp_path / "data").st_mode) == 0o700
