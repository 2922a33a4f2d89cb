"""Tests for the path of a request: authorization, formats of errors, draining and failures."""

from __future__ import annotations

import gzip
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType, SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.aggregation.remotes import Remote, Remotes
from apiserver_stub.apimachinery.request import ANONYMOUS, RequestInfo, User
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.audit.context import Audit
from apiserver_stub.audit.event import Event
from apiserver_stub.audit.policy import read_policy
from apiserver_stub.authz import ALLOW, AuthorizationResult, Chain
from apiserver_stub.flowcontrol.schemas import FlowSchema
from apiserver_stub.pipeline.cors import CorsAndHsts
from apiserver_stub.storage import StoreUnavailable
from apiserver_stub.telemetry.exposition import Choice, Page
from apiserver_stub.transport.rendered import Rendered
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.api import Api, config_map
from tests.unit.apiserver_stub.transport.fake_http import FakeHttpRequest

MAPS = "/api/v1/namespaces/default/configmaps"


class Readers:
    """Authorizer that allows reads, and more *verbs*."""

    def __init__(self, *verbs: str) -> None:
        self.verbs, self.seen = ("get", "list", "watch", *verbs), list[RequestInfo]()

    async def authorize(self, user: User, info: RequestInfo) -> AuthorizationResult:
        self.seen.append(info)
        return ALLOW if info.verb in self.verbs else AuthorizationResult("no-opinion", "readers only")


def restricted(*verbs: str, **handler: Any) -> tuple[Api, Readers]:
    readers: Any = Readers(*verbs)
    api = Api(authorizer=Chain([readers]), **handler)
    api.user = User("alice", groups=("system:authenticated",))
    return api, readers


class Annotates(AdmissionPlugin):
    """Admission plugin that adds an annotation and denies the request."""

    name = "Annotates"
    operations = ("CREATE", "CONNECT")

    async def validate(self, call: AdmissionRequest) -> None:
        call.request.annotations["own"] = "1"
        raise ApiError(403, "Forbidden", "no")


class Fails(AdmissionPlugin):
    """Admission plugin with an error."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def admit(self, call: AdmissionRequest) -> None:
        raise self.error


async def test_requests_are_authorized_before_formats_are_checked() -> None:
    api, _ = restricted()
    for method, accept, code in (
        ("GET", "", 200),
        ("POST", "", 403),
        ("GET", "text/x", 406),
        ("POST", "text/x", 403),
    ):
        response = await api.request(method, MAPS, config_map("a"), Accept=accept)
        assert response.code == code, (method, accept)
    response = await api.request("POST", MAPS, config_map("a"))
    text = 'configmaps is forbidden: User "alice" cannot create resource "configmaps" in API group "" in the namespace'
    assert response.message.startswith(text)


async def test_authorizers_receive_selectors_if_enabled() -> None:
    for enabled in (True, False):
        api, readers = restricted(authorizes_selectors=enabled)
        await api.get(f"{MAPS}?fieldSelector=metadata.name=a&labelSelector=a=b")
        (info,) = readers.seen
        assert (info.verb, bool(info.selected.fields or info.selected.labels)) == ("list", enabled)


async def test_errors_are_indented_for_terminals() -> None:
    api = Api()
    for target, agent, pretty in (
        (f"{MAPS}/x", "curl/8", True),
        (f"{MAPS}/x", "kubectl", False),
        (f"{MAPS}/x?pretty=1", "kubectl", True),
        (f"{MAPS}/x?pretty=0", "curl/8", False),
    ):
        response = await api.get(target, User_Agent=agent)
        assert (response.code, response.body.startswith(b"{\n")) == (404, pretty), (target, agent)
    await api.create(MAPS, config_map("a"))
    for accept in ("", "application/json", "application/json;as=Table;v=v1;g=meta.k8s.io"):
        response = await api.get(f"{MAPS}/a?pretty=1", Accept=accept)
        assert response.body.startswith(b"{\n"), accept


async def test_draining_server_serves_only_health_checks() -> None:
    for retry, target, code in ((False, MAPS, 503), (True, MAPS, 429), (True, "/livez", 404), (False, "/livez", 503)):
        api = Api(sends_retry_after=retry)
        api.lifecycle.draining = True
        assert (await api.get(target)).code == code, (retry, target)


async def test_failures_have_a_status() -> None:
    for error, code, message in (
        (StoreUnavailable("no space"), 503, "no space"),
        (RecursionError(), 400, "json: exceeded max depth"),
        (ValueError("bug"), 500, "ValueError"),
    ):
        api = Api(plugins=[Fails(error)])
        response = await api.request("POST", MAPS, config_map("a"))
        assert (response.code, message in response.message) == (code, True), error


async def test_lost_connection_ends_the_request() -> None:
    api = Api(plugins=[Fails(ConnectionResetError())])
    with pytest.raises(ConnectionResetError):
        await api.request("POST", MAPS, config_map("a"))


async def test_unauthenticated_http2_connections_are_closed_if_enabled() -> None:
    for closes, user, version, expected in (
        (True, ANONYMOUS, (2, 0), True),
        (True, ANONYMOUS, (1, 1), False),
        (True, User("alice"), (2, 0), False),
        (False, ANONYMOUS, (2, 0), False),
    ):
        api = Api(closes_unauthenticated=closes)
        api.user = user
        http = api.http("GET", MAPS)
        http.version = version
        await api.handler.handle(http)
        assert http.closes is expected, (closes, user, version)


async def test_long_responses_are_compressed_if_accepted() -> None:
    for enabled, method, accept, size, expected in (
        (True, "GET", "gzip", 200_000, True),
        (True, "GET", "gzip", 10, False),
        (True, "GET", "", 200_000, False),
        (False, "GET", "gzip", 200_000, False),
        (True, "PUT", "gzip", 200_000, False),
    ):
        api = Api(compresses=enabled)
        stored = await api.create(MAPS, config_map("a", {"k": "x" * size}))
        body = stored if method == "PUT" else None
        response = await api.request(method, f"{MAPS}/a", body, Accept_Encoding=accept)
        compressed = response.headers.get("Content-Encoding") == "gzip"
        assert compressed is expected, (enabled, method, accept, size)
        content = gzip.decompress(response.body) if compressed else response.body
        assert len(content) > size, (enabled, method, accept, size)


async def test_impersonation_requires_a_permission() -> None:
    for verbs, code in (((), 403), (("impersonate",), 200)):
        api, readers = restricted(*verbs)
        response = await api.get(MAPS, Impersonate_User="bob")
        assert response.code == code, verbs
        assert readers.seen[0].verb == "impersonate", verbs


async def test_head_of_a_request_must_be_utf_8() -> None:
    api = Api()
    assert (await api.get(f"{MAPS}?x=\udcff")).code == 400
    assert (await api.get(f"{MAPS}?labelSelector=a", User_Agent="ü")).code == 200


POD = "/api/v1/namespaces/default/pods/p"
FORBIDDEN = AuthorizationResult("no-opinion")


class Recorder:
    """Audit backend that records stage and code of each event, and the last event."""

    strict = False

    def __init__(self) -> None:
        self.stages: list[tuple[str, int | None]] = []
        self.last: Any = None

    def submit(self, event: Event) -> None:
        status = event.response_status
        self.stages.append((event.stage, None if status is None else status.code))
        self.last = event


def audited(level: str = "Metadata", **options: Any) -> tuple[Api, Recorder]:
    text = f"{{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{{level: {level}}}]}}".encode()
    recorder: Any = Recorder()
    audit = Audit(read_policy(text, Identity()), [recorder], Counter(), Identity())
    return Api(audit=audit, **options), recorder


class Authenticates:
    """Authenticator with an annotation for audit events, or with an error."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    async def authenticate(self, headers: Any, certificates: Any, annotations: Any, *, path: str) -> User:
        if self._error is not None:
            raise self._error
        if annotations is not None:
            annotations["authentication.k8s.io/stale-token"] = path
        return User("alice", groups=("system:masters",))


async def test_stages_of_a_request_are_audited() -> None:
    for error, stages in (
        (None, [("RequestReceived", None), ("ResponseComplete", 201)]),
        (ApiError(403, "Forbidden", "no"), [("RequestReceived", None), ("ResponseComplete", 403)]),
        (ValueError("bug"), [("RequestReceived", None), ("Panic", 500)]),
    ):
        api, recorder = audited(plugins=[] if error is None else [Fails(error)])
        await api.request("POST", MAPS, config_map("a"))
        assert recorder.stages == stages, error


async def test_disconnect_of_the_client_is_audited_and_counted() -> None:
    api, recorder = audited(plugins=[Fails(ConnectionResetError())])
    with pytest.raises(ConnectionResetError):
        await api.request("POST", MAPS, config_map("a"))
    assert [stage for stage, _ in recorder.stages] == ["RequestReceived", "ResponseComplete"]
    assert "apiserver_request_aborts_total{" in metrics_of(api)


async def test_requests_below_the_audit_level_are_served() -> None:
    api, recorder = audited("None")
    assert (await api.get(MAPS)).code == 200
    assert recorder.stages == []


async def test_audit_event_has_the_annotations_of_the_authenticator() -> None:
    api, recorder = audited(authenticator=Authenticates())
    await api.get(MAPS)
    assert recorder.last.annotations["authentication.k8s.io/stale-token"] == MAPS


@pytest.mark.parametrize("path", [f"{MAPS}", "/api/v1/namespaces/default/pods/p/exec?command=ls"])
async def test_audit_event_has_the_annotations_of_admission_plugins(path: str) -> None:
    api, recorder = audited(plugins=[Annotates()])

    response = await api.request("POST", path, config_map("a"))

    assert response.code == 403
    assert recorder.last.annotations["own"] == "1"


async def test_only_failed_authentication_is_audited_without_a_user() -> None:
    for error, target, stages, closes in (
        (ApiError(401, "Unauthorized", "no"), MAPS, [("ResponseStarted", 401)], True),
        (ApiError(503, "ServiceUnavailable", "no"), MAPS, [], False),
        (None, f"{MAPS}?x=\udcff", [], False),
    ):
        api, recorder = audited(authenticator=Authenticates(error), closes_unauthenticated=True)
        http = api.http("GET", target)
        http.version = (2, 0)
        await api.handler.handle(http)
        assert (recorder.stages, http.closes) == (stages, closes), target


async def test_error_before_authentication_is_indented_for_terminals() -> None:
    for agent, pretty in (("curl/8", True), ("kubectl", False)):
        api = Api(authenticator=Authenticates(ApiError(401, "Unauthorized", "no")))
        response = await api.get(MAPS, User_Agent=agent, Accept="application/yaml")
        assert (response.code, response.body.startswith(b"{\n")) == (401, pretty), agent


def metrics_of(api: Api) -> str:
    page = Page(Choice())
    api.metrics.show_on(page)
    return page.text()[0].decode()


async def test_dry_runs_are_counted_separately() -> None:
    for query, dry_run in (("?dryRun=All", "All"), ("", "")):
        api = Api()
        await api.create(MAPS + query, config_map("a"))
        assert f'apiserver_request_total{{dry_run="{dry_run}",verb="POST"' in metrics_of(api), query


async def test_preflight_request_is_not_authenticated() -> None:
    api = Api(cors=CorsAndHsts(["example"], []), authenticator=Authenticates(ApiError(401, "Unauthorized", "no")))
    for method, code in (("OPTIONS", 204), ("GET", 401)):
        response = await api.request(method, MAPS, Origin="https://a.example")
        assert (response.code, response.headers["Access-Control-Allow-Origin"]) == (code, "https://a.example"), method


async def test_pages_for_browsers_precede_the_api() -> None:
    class Start:
        def respond(self, http: FakeHttpRequest) -> Rendered | None:
            return Rendered(200, "text/html", [b"start"]) if http.target == "/" else None

    api = Api(page=Start())
    assert ((await api.get("/")).body, (await api.get(MAPS)).names) == (b"start", [])


class Sorted:
    """Priority and fairness with one flow schema."""

    levels: Any = MappingProxyType({"l": SimpleNamespace(max_width=10)})

    def __init__(self) -> None:
        self.entered, self.left = 0, 0

    def sort(self, user: User, info: RequestInfo) -> FlowSchema:
        return FlowSchema("s", "l", lambda user, info: True, headers={"X-Schema": "s"})

    async def enter(self, schema: FlowSchema, user: User, info: RequestInfo, width: int) -> int:
        self.entered += 1
        return width

    def leave(self, admission: int) -> None:
        self.left += admission


async def test_responses_name_the_flow_schema_except_for_streams() -> None:
    for target, user, code, named in (
        (MAPS, "admin", 200, True),
        (MAPS, "alice", 403, True),
        ("/unknown", "alice", 403, True),
        (f"{POD}/exec", "alice", 403, False),
        (f"{POD}/log", "alice", 403, False),
        (f"{POD}/status", "alice", 403, True),
    ):
        authorizer: Any = SimpleNamespace(authorize=returning(ALLOW if user == "admin" else FORBIDDEN))
        api = Api(authorizer=Chain([authorizer]))
        fairness: Any = Sorted()
        api.user, api.limits.flow_control = User(user), fairness
        response = await api.get(target)
        assert (response.code, "X-Schema" in response.headers) == (code, named), (target, user)
        assert fairness.entered == fairness.left == (1 if code == 200 else 0), (target, user)


async def test_watch_names_the_flow_schema_without_a_seat() -> None:
    api = Api()
    fairness: Any = Sorted()
    api.limits.flow_control = fairness
    response = await api.watch(f"{MAPS}?watch=1")
    assert (response.code, response.headers["X-Schema"], fairness.entered) == (200, "s", 0)


def returning(result: Any) -> Any:
    async def respond(*_: object) -> Any:
        return result

    return respond


class Streams:
    """Responder that records the streams."""

    def __init__(self) -> None:
        self.run = AsyncMock()


async def test_connections_to_pods_may_require_the_permission_to_create() -> None:
    for enabled, method, subresource, verbs, permitted in (
        (False, "GET", "exec", ("get",), True),
        (True, "GET", "exec", ("get",), False),
        (True, "GET", "exec", ("get", "create"), True),
        (True, "GET", "attach", ("get",), False),
        (True, "GET", "portforward", ("get",), False),
        (True, "POST", "exec", ("create",), True),
        (True, "GET", "log", ("get",), True),
        (True, "GET", "proxy", ("get",), True),
    ):
        streams = Streams()
        readers: Any = Readers()
        readers.verbs = verbs
        api = Api(authorizer=Chain([readers]), authorizes_connections=enabled, streams=streams)
        api.user = User("alice")
        http = api.http(method, f"{POD}/{subresource}")
        await api.handler.handle(http)
        assert streams.run.await_count == int(permitted), (enabled, method, subresource, verbs)
        assert (http.status == 403) is not permitted, (enabled, method, subresource, verbs)
        expected = 2 if enabled and method == "GET" and subresource not in ("log", "proxy") else 1
        assert len(readers.seen) == expected, (enabled, method, subresource, verbs)


async def test_groups_of_other_servers_are_proxied() -> None:
    remotes = Remotes(Identity())
    remotes.table["example.com", "v1"] = cast("Remote", object())
    for proxied, code in ((Rendered(429, "text/plain", [b"busy"]), 429), (None, 0)):
        aggregation = SimpleNamespace(run=AsyncMock(return_value=proxied))
        api = Api(remotes=remotes, aggregation=aggregation)
        response = await api.get("/apis/example.com/v1/things")
        assert (response.code, aggregation.run.await_count) == (code, 1), proxied
        assert (await api.get(MAPS)).code == 200
        assert aggregation.run.await_count == 1, proxied


async def test_formats_are_negotiated() -> None:
    api = Api()
    await api.create(MAPS, config_map("a"))
    protobuf, table = "application/vnd.kubernetes.protobuf", "application/json;as=Table;v=v1;g=meta.k8s.io"
    for target, accept, kind, pretty in (
        (f"{MAPS}/a", "", "application/json", False),
        (f"{MAPS}/a?pretty=true", "*/*", "application/json", True),
        (f"{MAPS}/a?pretty=true", table, "application/json", True),
        (f"{MAPS}/a", table, "application/json", False),
        (f"{MAPS}/a", protobuf, protobuf, False),
        (f"{MAPS}/a", "application/yaml", "application/yaml", False),
        ("/apis/example.com/v1/things", protobuf, "text/plain; charset=utf-8", False),
        ("/apis/apps/v9/things", protobuf, protobuf, False),
        ("/apis/apps/v9/things?pretty=true", "application/yaml", "application/yaml", False),
    ):
        response = await api.get(target, Accept=accept)
        assert response.headers["Content-Type"] == kind, (target, accept)
        assert response.body.startswith(b"{\n") is pretty, (target, accept)


async def test_requests_are_traced_if_configured() -> None:
    class Spans:
        def __init__(self) -> None:
            self.codes: list[tuple[int, str]] = []

        def request(self, http: FakeHttpRequest) -> AbstractContextManager[None]:
            return nullcontext()

        def responded(self, http: FakeHttpRequest, code: int, verb: str) -> None:
            self.codes.append((code, verb))

    spans = Spans()
    api = Api(tracing=spans)
    await api.get(MAPS)
    await api.get(f"{MAPS}/a")
    assert spans.codes == [(200, "list"), (404, "get")]


async def test_formats_of_watches_are_offered_for_lists() -> None:
    api = Api()
    await api.create(MAPS, config_map("a"))
    for target, offered in ((MAPS, True), (f"{MAPS}/a", False)):
        response = await api.get(target, Accept="text/html")
        assert (response.code, "application/json;stream=watch" in response.message) == (406, offered), target
