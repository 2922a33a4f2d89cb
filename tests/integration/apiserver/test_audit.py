"""Tests for audit logging on a running server: content, backends, and effect on requests."""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from apiserver_stub.audit.policy import AuditError
from apiserver_stub.server.running_server import RunningServer

from .in_process import start

MAPS = "/api/v1/namespaces/default/configmaps"
EVERYTHING = {"level": "RequestResponse"}


def policy(path: Path, *rules: dict[str, Any], **more: Any) -> str:
    """Write a policy and return the option that names it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": list(rules or [EVERYTHING]), **more}
    path.write_text(json.dumps(document))
    return f"--audit-policy-file={path}"


class Caller:
    """Administrator's client of a running server."""

    def __init__(self, running: RunningServer, session: aiohttp.ClientSession, tls: ssl.SSLContext) -> None:
        self.running, self._session, self._tls = running, session, tls

    async def __call__(self, method: str, path: str, **more: Any) -> tuple[int, str, Any]:
        """Return status code, Audit-Id and body."""
        headers = {"Authorization": f"Bearer {self.running.token}", **more.pop("headers", {})}
        url = self.running.url + path
        async with self._session.request(method, url, ssl=self._tls, headers=headers, **more) as response:
            return response.status, response.headers.get("Audit-Id", ""), await response.read()


@asynccontextmanager
async def serving(data: Path, *arguments: str) -> AsyncIterator[Caller]:
    running = await start(data, *arguments)
    try:
        async with aiohttp.ClientSession() as session:
            yield Caller(running, session, ssl.create_default_context(cafile=str(running.ca_file)))
    finally:
        await running.stop()


def lines(path: Path, uri: str = "") -> list[dict[str, Any]]:
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return [event for event in found if event["requestURI"].startswith(uri)]


class Receiver:
    """Audit webhook that accepts event lists, after returning the configured status codes."""

    def __init__(self) -> None:
        self.lists: list[dict[str, Any]] = []
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.codes: list[int] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.requests.append((self.path, dict(self.headers)))
                code = receiver.codes.pop(0) if receiver.codes else 200
                if code == 200:
                    receiver.lists.append(json.loads(body))
                self.send_response(code)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    @property
    def items(self) -> list[dict[str, Any]]:
        return [item for one in self.lists for item in one["items"]]

    def config(self, path: Path) -> str:
        """Write a kubeconfig and return the option that names it."""
        server = f"http://127.0.0.1:{self.server.server_port}/hook"
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": {"token": "secret"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path.write_text(json.dumps(document))
        return f"--audit-webhook-config-file={path}"


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()
    thread = threading.Thread(target=receiver.server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield receiver
    finally:
        receiver.server.shutdown()
        thread.join()
        receiver.server.server_close()


async def until(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.02)


@pytest.mark.row("opt.audit-policy-file", "opt.audit-log-path", "opt.audit-log-mode", "opt.audit-log-version")
async def test_audit_event_contains_all_fields_of_a_request(tmp_path: Path) -> None:
    log = tmp_path / "new" / "audit.log"
    arguments = (policy(tmp_path / "policy"), f"--audit-log-path={log}", "--audit-log-version=audit.k8s.io/v1")
    async with serving(tmp_path / "data", *arguments) as call:
        body = {"metadata": {"name": "one"}, "data": {"a": "b"}}
        agent = {"User-Agent": "tester", "X-Forwarded-For": "192.0.2.7", "Audit-ID": "my-own"}
        code, audit_id, _ = await call("POST", f"{MAPS}?fieldManager=me", json=body, headers=agent)
        assert (code, audit_id) == (201, "my-own")
        received, complete = lines(log, MAPS)  # blocking: events are written before the response
        code, generated, reply = await call("POST", MAPS, json=body)
        rejection = lines(log, MAPS)[-1]
        await call("GET", f"{MAPS}?fieldSelector=metadata.name%3Done")
        listed = lines(log, MAPS)[-1]

    assert (log.stat().st_mode & 0o777, log.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert list(complete) == [
        "kind", "apiVersion", "level", "auditID", "stage", "requestURI", "verb", "user", "sourceIPs", "userAgent",
        "objectRef", "responseStatus", "requestObject", "responseObject", "requestReceivedTimestamp", "stageTimestamp",
        "annotations",
    ]  # fmt: skip
    assert (received["stage"], complete["stage"]) == ("RequestReceived", "ResponseComplete")
    assert "responseStatus" not in received
    assert received["stageTimestamp"] == received["requestReceivedTimestamp"] < complete["stageTimestamp"]
    assert complete["kind"] == "Event" and complete["apiVersion"] == "audit.k8s.io/v1"
    assert complete["level"] == "RequestResponse"
    assert complete["auditID"] == "my-own"
    assert complete["verb"] == "create"
    groups = ["system:masters", "system:authenticated"]
    assert complete["user"] == {"username": "admin", "uid": "admin", "groups": groups}
    assert complete["sourceIPs"] == ["192.0.2.7", "127.0.0.1"]
    assert complete["userAgent"] == "tester"
    reference = {"resource": "configmaps", "namespace": "default", "apiVersion": "v1"}
    assert (received["objectRef"], complete["objectRef"]) == (reference, {**reference, "name": "one"})
    assert (listed["verb"], listed["objectRef"]) == ("list", {**reference, "name": "one"})
    assert complete["responseStatus"] == {"metadata": {}, "code": 201}
    assert complete["requestObject"] == body
    assert complete["responseObject"]["metadata"]["managedFields"][0]["manager"] == "me"
    assert complete["annotations"] == {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""}
    assert (code, rejection["auditID"]) == (409, generated)
    status = json.loads(reply)
    expected = {key: status[key] for key in ("metadata", "status", "message", "reason", "details", "code")}
    assert rejection["responseStatus"] == expected
    assert rejection["responseObject"] == status


@pytest.mark.row("opt.audit-policy-file")
async def test_audit_policy_selects_level_and_stages(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    rules = (
        {"level": "None", "nonResourceURLs": ["/healthz*"]},
        {"level": "Request", "verbs": ["create"], "resources": [{"group": "", "resources": ["configmaps"]}]},
        {"level": "Metadata", "users": ["admin"], "namespaces": ["default"], "omitStages": ["ResponseComplete"]},
        {"level": "Metadata", "nonResourceURLs": ["/version"]},
    )
    arguments = (policy(tmp_path / "policy", *rules, omitStages=["RequestReceived"]), f"--audit-log-path={log}")
    async with serving(tmp_path / "data", *arguments) as call:
        for path in ("/healthz", "/version", "/api/v1/nodes", MAPS):
            await call("GET", path)
        await call("POST", MAPS, json={"metadata": {"name": "one"}})
        await call("GET", "/version", headers={"Authorization": "Bearer wrong"})
        metrics = (await call("GET", "/metrics"))[2].decode()

    found = [(event["requestURI"], event["stage"], event["level"]) for event in lines(log)]
    assert found == [
        ("/version", "ResponseComplete", "Metadata"),
        (MAPS, "ResponseComplete", "Request"),
        ("/version", "ResponseStarted", "Metadata"),
    ]
    created, anonymous = lines(log)[1:]
    assert "requestObject" in created and "responseObject" not in created
    assert anonymous["user"] == {}
    assert anonymous["responseStatus"]["code"] == 401
    assert anonymous["responseStatus"]["message"] == "Authentication failed, attempted: bearer"
    assert "apiserver_audit_event_total 3" in metrics
    assert 'apiserver_audit_level_total{level="Request"} 1' in metrics


async def test_watch_is_logged_at_start_and_end(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    async with serving(tmp_path / "data", policy(tmp_path / "policy"), f"--audit-log-path={log}") as call:
        await call("GET", f"{MAPS}?watch=1&timeoutSeconds=1")
    stages = [event["stage"] for event in lines(log, MAPS)]
    assert stages == ["RequestReceived", "ResponseStarted", "ResponseComplete"]
    assert lines(log, MAPS)[-1]["annotations"]["apiserver.latency.k8s.io/total"].endswith("s")


async def test_managed_fields_can_be_omitted(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    arguments = (policy(tmp_path / "policy", omitManagedFields=True), f"--audit-log-path={log}")
    async with serving(tmp_path / "data", *arguments) as call:
        await call("POST", MAPS, json={"metadata": {"name": "one"}})
        await call("GET", MAPS)
    created, listed = (event for event in lines(log, MAPS) if event["stage"] == "ResponseComplete")
    assert created["responseObject"]["metadata"]["name"] == "one"
    assert "managedFields" not in json.dumps([created, listed])


@pytest.mark.row("opt.audit-log-format", "opt.audit-log-path")
async def test_legacy_format_is_text(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    arguments = (policy(tmp_path / "policy"), f"--audit-log-path={log}", "--audit-log-format=legacy")
    async with serving(tmp_path / "data", *arguments) as call:
        await call("GET", MAPS, headers={"Audit-ID": "U", "User-Agent": "curl"})
    first, last = log.read_text().splitlines()
    assert ' AUDIT: id="U" stage="RequestReceived" ip="127.0.0.1" method="list" user="admin" groups="' in first
    assert 'as="<self>" asgroups="<lookup>" user-agent="curl" namespace="default"' in last
    assert last.endswith(f'uri="{MAPS}" response="200"')


@pytest.mark.row("opt.audit-log-maxsize", "opt.audit-log-maxbackup", "opt.audit-log-compress")
async def test_full_files_are_rotated_compressed_and_limited(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "audit.log"
    arguments = ["--audit-log-maxsize=1", "--audit-log-maxbackup=2", "--audit-log-compress"]
    rule = {"level": "Request"}
    async with serving(
        tmp_path / "data", policy(tmp_path / "policy", rule), f"--audit-log-path={log}", *arguments
    ) as call:
        for number in range(8):
            body = {"metadata": {"name": f"big-{number}"}, "data": {"a": "x" * 600_000}}
            assert (await call("POST", MAPS, json=body))[0] == 201
    kept = sorted(path.name for path in log.parent.iterdir())
    assert kept[-1] == "audit.log"
    assert len(kept) == 3
    assert all(name.startswith("audit-2") and name.endswith(".log.gz") for name in kept[:-1])
    assert log.stat().st_size <= 1 << 20
    assert json.loads(gzip.decompress((log.parent / kept[0]).read_bytes()).splitlines()[-1])["stage"]


@pytest.mark.row("opt.audit-log-maxage")
@pytest.mark.parametrize("days", [30, 0])
async def test_old_files_are_deleted_by_age(tmp_path: Path, days: int) -> None:
    old = tmp_path / "logs" / "audit-2020-01-01T00-00-00.000.log"
    old.parent.mkdir()
    old.write_text("old\n")
    arguments = [f"--audit-log-path={tmp_path}/logs/audit.log", "--audit-log-maxsize=1", f"--audit-log-maxage={days}"]
    async with serving(tmp_path / "data", policy(tmp_path / "policy", {"level": "Request"}), *arguments) as call:
        for number in range(3):
            body = {"metadata": {"name": f"big-{number}"}, "data": {"a": "x" * 600_000}}
            await call("POST", MAPS, json=body)
    assert old.exists() is (days == 0)
    assert len(list(old.parent.iterdir())) == 3 + (days == 0)


@pytest.mark.row("opt.audit-webhook-config-file", "opt.audit-webhook-mode", "opt.audit-webhook-version")
@pytest.mark.row("opt.audit-webhook-batch-max-size", "opt.audit-webhook-batch-max-wait")
async def test_webhook_receives_full_batches_immediately(tmp_path: Path) -> None:
    with receiving() as receiver:
        arguments = [
            policy(tmp_path / "policy", {"level": "Metadata"}),
            receiver.config(tmp_path / "hook"),
            "--audit-webhook-version=audit.k8s.io/v1",
            "--audit-webhook-mode=batch",
            "--audit-webhook-batch-max-size=4",
            "--audit-webhook-batch-max-wait=600ms",
        ]
        async with serving(tmp_path / "data", *arguments) as call:
            for _ in range(3):
                await call("GET", MAPS)
            await until(lambda: len(receiver.items) == 6)
            assert [len(one["items"]) for one in receiver.lists] == [4, 2]
            await call("GET", "/version")
    assert receiver.items[-1]["requestURI"] == "/version"  # remaining events are sent at shutdown
    first = receiver.lists[0]
    assert list(first) == ["kind", "apiVersion", "metadata", "items"]
    assert (first["kind"], first["apiVersion"]) == ("EventList", "audit.k8s.io/v1")
    assert list(first["items"][0])[:3] == ["level", "auditID", "stage"]
    path, headers = receiver.requests[0]
    assert path == "/hook?timeout=30s"
    assert (headers["Authorization"], headers["Content-Type"]) == ("Bearer secret", "application/json")


@pytest.mark.row("opt.audit-webhook-initial-backoff")
async def test_webhook_is_retried_up_to_five_attempts(tmp_path: Path) -> None:
    rule = {"level": "Metadata", "nonResourceURLs": ["/version"]}
    with receiving() as receiver:
        receiver.codes = [500, 400, 503, 429]
        arguments = [
            policy(tmp_path / "policy", rule, omitStages=["RequestReceived"]),
            receiver.config(tmp_path / "hook"),
            "--audit-webhook-initial-backoff=10ms",
            "--audit-webhook-batch-max-wait=10ms",
        ]
        async with serving(tmp_path / "data", *arguments) as call:
            await call("GET", "/version")
            await until(lambda: receiver.items)
            assert len(receiver.requests) == 5
            receiver.codes = [500] * 5
            await call("GET", "/version")
            await until(lambda: call.running.audit is not None and call.running.audit.errors["webhook"])
            metrics = (await call("GET", "/metrics"))[2].decode()
    assert len(receiver.requests) == 10
    assert 'apiserver_audit_error_total{plugin="webhook"} 1' in metrics


@pytest.mark.row("opt.audit-webhook-mode", "opt.audit-log-mode")
@pytest.mark.parametrize(("mode", "code"), [("blocking-strict", 500), ("blocking", 200), ("batch", 200)])
async def test_only_blocking_strict_failures_fail_requests(tmp_path: Path, mode: str, code: int) -> None:
    with receiving() as receiver:
        receiver.codes = [500] * 1000
        arguments = [
            policy(tmp_path / "policy", {"level": "Metadata", "nonResourceURLs": ["/version"]}),
            receiver.config(tmp_path / "hook"),
            f"--audit-webhook-mode={mode}",
            "--audit-webhook-initial-backoff=1ms",
            "--audit-webhook-batch-max-wait=1ms",
        ]
        async with serving(tmp_path / "data", *arguments) as call:
            found, _, body = await call("GET", "/version")
            metrics = (await call("GET", "/metrics"))[2].decode()
    assert found == code
    assert f"apiserver_audit_requests_rejected_total {int(code == 500)}" in metrics
    if code == 500:
        assert "failed to store audit event" in json.loads(body)["message"]


@pytest.mark.row("opt.audit-webhook-truncate-enabled", "opt.audit-webhook-truncate-max-event-size")
@pytest.mark.row("opt.audit-webhook-truncate-max-batch-size")
async def test_large_events_are_truncated_and_batches_split(tmp_path: Path) -> None:
    rule = {"level": "Request", "verbs": ["create"]}
    with receiving() as receiver:
        arguments = [
            policy(tmp_path / "policy", rule, omitStages=["RequestReceived"]),
            receiver.config(tmp_path / "hook"),
            "--audit-webhook-batch-max-wait=300ms",
            "--audit-webhook-truncate-enabled",
            "--audit-webhook-truncate-max-event-size=5000",
            "--audit-webhook-truncate-max-batch-size=6000",
        ]
        async with serving(tmp_path / "data", *arguments) as call:
            for name, size in (("small", 10), ("medium", 4000), ("large", 8000)):
                await call("POST", MAPS, json={"metadata": {"name": name}, "data": {"a": "x" * size}})
            await call("POST", f"{MAPS}?fieldManager=x&ignored={'y' * 6000}", json={"metadata": {"name": "longest"}})
            await until(lambda: len(receiver.items) == 3)
            metrics = (await call("GET", "/metrics"))[2].decode()
    assert [len(one["items"]) for one in receiver.lists] == [2, 1]
    small, medium, large = receiver.items
    assert "requestObject" in small and "requestObject" in medium and "requestObject" not in large
    assert large["annotations"]["audit.k8s.io/truncated"] == "true"
    assert 'apiserver_audit_error_total{plugin="truncate"} 1' in metrics


async def test_invalid_files_prevent_start(tmp_path: Path) -> None:
    good = policy(tmp_path / "policy")
    for arguments, message in (
        ([f"--audit-policy-file={tmp_path}/nope", "--audit-log-path=-"], "loading audit policy file"),
        ([good, f"--audit-webhook-config-file={tmp_path}/nope"], "initializing audit webhook"),
        ([good, "--audit-log-path=/proc/nope/audit.log"], "/proc/nope"),
    ):
        with pytest.raises(AuditError, match=message):
            await start(tmp_path / "data", *arguments)
