"""Tests for audit contexts: the stages of a request."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from apiserver_stub.apimachinery.request import Query, parse_path
from apiserver_stub.audit.context import Audit, AuditContext
from apiserver_stub.audit.event import Event, ResponseStatus
from apiserver_stub.audit.policy import read_policy
from apiserver_stub.transport.rendered import Rendered
from nodeagent.base import apiproto
from nodeagent.base.identity import Identity

POLICY = b"{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}"
POD = b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"n","namespace":"x","uid":"u","managedFields":[]}}'


class Backend:
    """Backend that records the events, and writes them with a result."""

    def __init__(self, *, strict: bool = False, written: bool = True) -> None:
        self.strict, self.written = strict, written
        self.events: list[dict[str, Any]] = []

    def submit(self, event: Event) -> object:
        self.events.append(msgspec.json.decode(msgspec.json.encode(event)))
        return object()

    async def wait(self, delivered: object) -> bool:
        return self.written


def begin(
    policy: str = "level: Metadata",
    method: str = "GET",
    path: str = "/api/v1/namespaces/a/pods/p",
    *backends: Backend,
    headers: dict[str, str] | None = None,
) -> AuditContext:
    """Return the audit context of a request, whose level is in *policy*, the fields of the only rule."""
    text = f"{{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{{{policy}}}]}}".encode()
    found: Any = backends or [Backend()]
    http: Any = SimpleNamespace(headers={"Audit-ID": "a", **(headers or {})}, target=path, remote=None, tls=None)
    context = Audit(read_policy(text, Identity()), found, Counter(), Identity()).begin(
        http, parse_path(method, path, Query("")), None
    )
    assert context is not None
    return context


def rendered(body: bytes, code: int = 200, content_type: str = "application/json") -> Rendered:
    return Rendered(code, content_type, [body])


def recorded(context: AuditContext) -> dict[str, Any]:
    """Return the event in the form in which it is written."""
    return msgspec.json.decode(msgspec.json.encode(context.event))


@pytest.mark.parametrize(
    ("level", "found"), [("Metadata", {"a": "1"}), ("Request", {"a": "1", "patch": "2"}), ("RequestResponse", None)]
)
def test_annotations_with_content_need_the_level_request(level: str, found: dict[str, str] | None) -> None:
    context = begin(f"level: {level}")
    request: Any = SimpleNamespace(annotations={}, content_annotations={}, durations={})

    context.annotate(request)
    request.annotations["a"] = "1"
    request.content_annotations["patch"] = "2"

    assert recorded(context)["annotations"] == (found or {"a": "1", "patch": "2"})


class SlowBackend:
    """Backend that records stages and never finishes writing."""

    strict = False

    def __init__(self) -> None:
        self.stages: list[str] = []

    def submit(self, event: Event) -> asyncio.Future[bool]:
        self.stages.append(event.stage)
        return asyncio.get_running_loop().create_future()

    async def wait(self, delivered: asyncio.Future[bool]) -> bool:
        return await delivered


async def test_disconnect_after_the_response_adds_no_second_end() -> None:
    backend: Any = SlowBackend()
    audit = Audit(read_policy(POLICY, Identity()), [backend], Counter(), Identity())
    http: Any = SimpleNamespace(headers={"Audit-ID": "a"}, target="/version", remote=None)
    context = audit.begin(http, parse_path("GET", "/version", Query("")), None)
    assert context is not None

    ending = asyncio.ensure_future(context.ended())
    await asyncio.sleep(0)
    ending.cancel()
    await asyncio.gather(ending, return_exceptions=True)
    context.abandoned()

    assert backend.stages == ["ResponseComplete"]


async def test_body_with_a_malformed_key_is_left_out_of_the_event() -> None:
    events: list[Event] = []
    backend: Any = SimpleNamespace(strict=False, submit=events.append)
    policy = read_policy(POLICY.replace(b"Metadata", b"Request"), Identity())
    http: Any = SimpleNamespace(headers={"Audit-ID": "a"}, target="/api/v1/pods", remote=None)
    context = Audit(policy, [backend], Counter(), Identity()).begin(
        http, parse_path("POST", "/api/v1/namespaces/a/pods", Query("")), None
    )
    assert context is not None

    context.sent({"Content-Type": "application/json"}, b'{"kin\xe5d": "Pod"}')

    assert context.event.request_object is None


# --- delivery -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("backends", "stored"),
    [
        ([{"strict": True}, {"strict": True}], True),
        ([{"strict": True, "written": False}, {"strict": True}], False),
        ([{"strict": True}, {"strict": True, "written": False}], False),
        ([{"written": False}, {"strict": True}], True),
        ([{"written": False}], True),
    ],
)
async def test_event_is_stored_once_all_strict_backends_have_written_it(
    backends: list[dict[str, bool]], stored: bool
) -> None:
    context = begin("level: Metadata", "GET", "/version", *(Backend(**fields) for fields in backends))

    assert await context.emit("ResponseComplete") is stored


@pytest.mark.parametrize(("stage", "stored"), [("RequestReceived", True), ("ResponseComplete", True)])
async def test_only_the_last_event_waits_for_backends_that_are_not_strict(stage: str, stored: bool) -> None:
    waited: list[object] = []
    backend = Backend()

    async def wait(delivered: object) -> bool:
        waited.append(delivered)
        return True

    backend.wait = wait  # type: ignore[method-assign]
    context = begin("level: Metadata", "GET", "/version", backend)

    assert await context.emit(stage) is stored
    assert len(waited) == (stage == "ResponseComplete")


async def test_omitted_stages_are_not_written() -> None:
    backend = Backend(strict=True, written=False)
    context = begin("level: Metadata, omitStages: [ResponseStarted]", "GET", "/version", backend)

    assert await context.emit("ResponseStarted")
    assert not await context.emit("ResponseComplete")
    assert [event["stage"] for event in backend.events] == ["ResponseComplete"]


async def test_latency_of_slow_requests_is_an_annotation_of_their_last_event(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Backend()
    context = begin("level: Metadata", "GET", "/version", backend)
    request: Any = SimpleNamespace(annotations={}, durations={"apf-queue-wait": 0.25})
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now + 10**9)
    context.annotate(request)

    await context.emit("ResponseStarted")
    await context.emit("ResponseComplete")

    early, last = (event.get("annotations", {}) for event in backend.events)
    assert early == {}
    assert last.pop("apiserver.latency.k8s.io/total").startswith("1.0")
    assert last == {"apiserver.latency.k8s.io/apf-queue-wait": "0.250000000s"}


async def test_last_event_of_a_quick_request_has_no_latency() -> None:
    backend = Backend()
    context = begin("level: Metadata", "GET", "/version", backend)

    await context.emit("ResponseComplete")

    assert not backend.events[0].get("annotations")


def test_abandoned_request_is_complete_unless_the_response_has_started() -> None:
    backend, started = Backend(), Backend()
    begin("level: Metadata", "GET", "/version", backend).abandoned()
    context = begin("level: Metadata", "GET", "/version", started)
    context.event.response_status = ResponseStatus(code=207)
    context.abandoned()

    [event], [other] = backend.events, started.events
    assert event["responseStatus"]["message"] == "Connection closed early"
    assert other["responseStatus"]["code"] == 207


# --- request bodies -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "content_type", "body", "expected"),
    [
        ("level: Metadata", "application/json", POD, None),
        ("level: Metadata", "", POD, None),
        ("level: Metadata", "application/yaml", b"metadata: {name: n, namespace: x, uid: u}", None),
        ("level: Request", "application/json; charset=utf-8", POD, json.loads(POD)),
        (
            "level: Request, omitManagedFields: true",
            "application/json",
            POD,
            {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "n", "namespace": "x", "uid": "u"}},
        ),
        (
            "level: Request",
            "application/yaml",
            b"metadata: {name: n, namespace: x, uid: u}",
            {"metadata": {"name": "n", "namespace": "x", "uid": "u"}},
        ),
    ],
)
def test_created_object_is_named_by_its_body(
    policy: str, content_type: str, body: bytes, expected: dict[str, Any] | None
) -> None:
    context = begin(policy, "POST", "/api/v1/namespaces/a/pods")

    context.sent({"Content-Type": content_type}, body)

    event = recorded(context)
    assert (event["objectRef"]["namespace"], event["objectRef"]["name"], event["objectRef"]["uid"]) == ("a", "n", "u")
    assert event.get("requestObject") == expected


def test_name_of_the_path_has_precedence() -> None:
    context = begin("level: Metadata", "PUT", "/api/v1/namespaces/a/pods/p")

    context.sent({"Content-Type": "application/json"}, POD)

    assert (context.event.object_ref.name, context.event.object_ref.uid) == ("p", "u")  # type: ignore[union-attr]


def test_body_of_a_patch_does_not_name_the_object() -> None:
    context = begin("level: Request", "PATCH", "/api/v1/namespaces/a/pods/p")

    context.sent({"Content-Type": "application/merge-patch+json"}, POD)

    event = recorded(context)
    assert (event["objectRef"]["name"], event["objectRef"].get("uid", "")) == ("p", "")
    assert event["requestObject"] == json.loads(POD)


@pytest.mark.parametrize(
    ("path", "content_type", "body"),
    [
        ("/api/v1/namespaces/a/pods", "text/plain", POD),
        ("/api/v1/namespaces/a/pods", "application/json", b""),
        ("/other", "application/json", POD),
    ],
)
def test_body_without_an_object_of_a_resource_is_left_out(path: str, content_type: str, body: bytes) -> None:
    context = begin("level: Request", "POST", path)

    context.sent({"Content-Type": content_type}, body)

    assert "requestObject" not in recorded(context)


# --- responses ------------------------------------------------------------------------------------------------

STATUS = (
    b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"m","reason":"NotFound","code":404}'
)
TABLE = (
    b'{"kind":"Table","apiVersion":"meta.k8s.io/v1","rows":[{"object":{"metadata":{"name":"n","managedFields":[]}}}]}'
)
PODS = b'{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"n","managedFields":[{}]}}]}'


@pytest.mark.parametrize(
    ("policy", "body", "expected"),
    [
        ("level: Request", POD, None),
        ("level: RequestResponse", POD, json.loads(POD)),
        (
            "level: RequestResponse, omitManagedFields: true",
            POD,
            {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "n", "namespace": "x", "uid": "u"}},
        ),
        (
            "level: RequestResponse, omitManagedFields: true",
            PODS,
            {"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {"name": "n"}}]},
        ),
        (
            "level: RequestResponse, omitManagedFields: true",
            TABLE,
            {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "rows": [{"object": {"metadata": {"name": "n"}}}]},
        ),
        ("level: Metadata", STATUS, None),
        ("level: RequestResponse", STATUS, json.loads(STATUS)),
    ],
)
async def test_response_object_depends_on_the_level(policy: str, body: bytes, expected: dict[str, Any] | None) -> None:
    context = begin(policy)

    await context.responded(rendered(body, 404 if body == STATUS else 200))

    event = recorded(context)
    assert event.get("responseObject") == expected
    assert event["responseStatus"].get("reason") == ("NotFound" if body == STATUS else None)


async def test_status_in_protobuf_is_recorded() -> None:
    context = begin("level: Metadata")
    names = context._audit.names
    body = apiproto.encode(json.loads(STATUS), names.api_domain)

    await context.responded(rendered(body, 404, names.protobuf))

    assert recorded(context)["responseStatus"].get("reason") == "NotFound"


async def test_plain_text_is_left_out_of_the_response() -> None:
    context = begin("level: RequestResponse")

    await context.responded(rendered(b"ok", content_type="text/plain"))

    assert "responseObject" not in recorded(context)


@pytest.mark.parametrize(("code", "reason"), [(404, "NotFound"), (400, "NotFound"), (200, None)])
async def test_status_of_a_request_without_resource_is_recorded_only_for_errors(code: int, reason: str | None) -> None:
    context = begin("level: Metadata", "GET", "/version")

    await context.responded(rendered(STATUS, code))

    assert recorded(context)["responseStatus"].get("reason") == reason


# --- rejected credentials -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("authorization", "certificate", "message"),
    [
        ("", None, "no credentials provided"),
        ("Bearer abc", None, "attempted: bearer"),
        ("bearer", None, "no credentials provided"),
        ("Basic dTpw", None, "attempted: basic"),
        ("Basic dXA=", None, "no credentials provided"),
        ("Basic %", None, "no credentials provided"),
        ("Other abc", None, "no credentials provided"),
        ("Bearer abc", {"subject": ()}, "attempted: bearer, x509"),
        ("", {}, "no credentials provided"),
    ],
)
async def test_rejected_credentials_are_listed(
    authorization: str, certificate: dict[str, Any] | None, message: str
) -> None:
    backend: Any = Backend()
    tls = None if certificate is None else SimpleNamespace(getpeercert=lambda: certificate)
    http: Any = SimpleNamespace(
        headers={"Audit-ID": "a", "Authorization": authorization}, target="/version", remote=None, tls=tls
    )

    audit = Audit(read_policy(POLICY, Identity()), [backend], Counter(), Identity())
    await audit.authentication_failed(http, parse_path("GET", "/version", Query("")))

    [event] = backend.events
    assert event["responseStatus"]["message"] == f"Authentication failed, {message}"
    assert event["responseStatus"]["code"] == 401
