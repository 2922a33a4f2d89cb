"""Tests for tracing: the spans of requests, their propagation to other servers, and sampling."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import grpc.aio
import pytest
from multidict import CIMultiDict

from apiserver_stub.nodes.headers import forwarded
from apiserver_stub.storage.etcd.client import EtcdClient, TlsFiles
from apiserver_stub.storage.etcd.proto import rpc_pb2 as rpc
from apiserver_stub.telemetry.tracing import TracingError
from apiserver_stub.transport.http import HttpRequest
from nodeagent.base import tracing
from tests.integration.collector import Collector, collecting

from .agents import Pki, agent
from .etcd import serving
from .in_process import start
from .provider import Provider
from .test_authorization import connection, decide
from .test_limits import Client

MAPS, PODS = (f"/api/v1/namespaces/default/{plural}" for plural in ("configmaps", "pods"))
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture
def collector() -> Iterator[tuple[Collector, str]]:
    with collecting() as found:
        yield found, found.endpoint


def config(path: Path, *lines: str) -> str:
    head = ("apiVersion: apiserver.config.k8s.io/v1beta1", "kind: TracingConfiguration")
    path.write_text("\n".join([*head, *lines]))
    return f"--tracing-config-file={path}"


async def calls(data: Path, *arguments: str) -> None:
    """Send two requests to a server and stop it, which flushes the spans."""
    running = await start(data, *arguments)
    try:
        tls = ssl.create_default_context(cafile=str(running.ca_file))
        headers = {"Authorization": f"Bearer {running.token}", "traceparent": f"00-{_TRACE}-00f067aa0ba902b7-01"}
        async with aiohttp.ClientSession(headers=headers) as session:
            for path in ("/api/v1/namespaces/default/configmaps?limit=1", "/nope"):
                async with session.get(running.url + path, ssl=tls) as response:
                    await response.read()
    finally:
        await running.stop()


def attributes(span: Any) -> dict[str, Any]:
    return {item.key: item.value.string_value or item.value.int_value for item in span.attributes}


def tree(spans: list[Any], parent: bytes = b"") -> list[Any]:
    """Return the names of the spans under *parent* in order of their start, each with those under it."""
    below = sorted(
        (span for span in spans if span.parent_span_id == parent), key=lambda span: span.start_time_unix_nano
    )
    return [(span.name, found) if (found := tree(spans, span.span_id)) else span.name for span in below]


@asynccontextmanager
async def traced(data: Path, collector: Collector, *arguments: str) -> AsyncIterator[Client]:
    """Yield a client of a server that exports all spans to *collector*; at the end, the collector has all of them."""
    data.mkdir()
    config_option = config(data / "tracing", f"endpoint: {collector.endpoint}", "samplingRatePerMillion: 1000000")
    async with serving(data, config_option, *arguments) as client:
        yield client


@pytest.mark.row("opt.tracing-config-file")
async def test_request_is_exported_as_the_root_of_a_trace(tmp_path: Path, collector: tuple[Collector, str]) -> None:
    servicer, endpoint = collector

    await calls(tmp_path / "data", config(tmp_path / "t", f"endpoint: {endpoint}", "samplingRatePerMillion: 1000000"))

    assert "apiserver" in servicer.services
    roots = servicer.named("KubernetesAPI")
    found = [attributes(span) for span in roots]
    assert found[0]["http.target"] == "/api/v1/namespaces/default/configmaps?limit=1"
    assert [each["http.status_code"] for each in found] == [200, 404]
    span = roots[0]
    assert span.end_time_unix_nano > span.start_time_unix_nano
    assert [link.trace_id.hex() for link in span.links] == [_TRACE]
    assert span.trace_id.hex() != _TRACE
    assert not span.parent_span_id


@pytest.mark.row("opt.tracing-config-file")
async def test_requests_have_a_span_per_step(tmp_path: Path, collector: tuple[Collector, str]) -> None:
    servicer, _ = collector
    policy = tmp_path / "policy"
    policy.write_text("{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}")
    options = (f"--audit-policy-file={policy}", f"--audit-log-path={tmp_path}/audit")
    a_map = {"metadata": {"name": "a"}}

    async with traced(tmp_path / "data", servicer, *options) as client:
        requests = [
            ("POST", "", {"json": a_map}),
            ("PUT", "/a", {"json": a_map | {"data": {"b": "c"}}}),
            ("GET", "/a", {}),
            ("GET", "", {}),
            ("GET", "?resourceVersion=0", {}),
            ("DELETE", "/a", {}),
        ]
        for method, path, more in requests:
            assert (await client(method, MAPS + path, **more))[0] < 300

    steps = ["authentication", "audit", "authorization", "priorityandfairness"]
    roots = [span for span in servicer.named("KubernetesAPI") if MAPS in attributes(span)["http.target"]]
    found = [tree([span for span in servicer.spans if span.trace_id == root.trace_id]) for root in roots]
    assert found == [
        [("KubernetesAPI", [*steps, verb])]
        for verb in (
            ("Create", ["Create etcd3", "SerializeObject"]),
            ("Update", ["GuaranteedUpdate etcd3", "SerializeObject"]),
            ("Get", ["SerializeObject"]),
            ("List", ["List(recursive=true) etcd3", "SerializeObject"]),
            ("List", ["cacher list", "SerializeObject"]),
            ("Delete", ["SerializeObject"]),
        )
    ]
    (write,) = [span for span in servicer.named("Create etcd3") if attributes(span)["resource"] == "configmaps"]
    assert attributes(write)["key"] == "/configmaps/default/a"
    (deletion,) = servicer.named("Delete")
    texts = ["About to delete object from database", "Object deleted from database"]
    assert [event.name for event in deletion.events] == texts


@pytest.mark.row("opt.tracing-config-file")
async def test_context_is_propagated_to_webhooks_and_agents(tmp_path: Path, collector: tuple[Collector, str]) -> None:
    servicer, _ = collector
    provider, pki = Provider(tmp_path), Pki(tmp_path, "agents")
    provider.paths |= {"/authorize": decide, "/review": admit}
    certificate, key = pki.pair("the-api-server")
    (tokens := tmp_path / "tokens").write_text("bob-token,bob,bob\n")
    options = (
        f"--token-auth-file={tokens}",
        "--authorization-mode=Webhook,RBAC",
        f"--authorization-webhook-config-file={connection(tmp_path, provider)}",
        "--authorization-webhook-version=v1",
        f"--nodeagent-client-certificate={certificate}",
        f"--nodeagent-client-key={key}",
    )

    with agent(pki) as port:
        async with traced(tmp_path / "data", servicer, *options) as client:
            await create(client, f"{_ADMISSION}/validatingwebhookconfigurations", configuration(provider))
            await create(client, MAPS, {"metadata": {"name": "a"}})
            await create(client, "/api/v1/nodes", node(port))
            pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}}
            await create(client, PODS, pod)
            seen = json.loads((await client("GET", f"{PODS}/p/log"))[2])["headers"]
            async with aiohttp.ClientSession() as session:
                assert (await Client(client.running, session, "bob-token")("GET", MAPS))[0] == 200
        provider.close()

    (call,) = servicer.named("Call validating webhook")
    assert attributes(call)["webhook"] == "a.example.com"
    (post,) = [span for span in servicer.named("HTTP POST") if span.parent_span_id == call.span_id]
    received = zip(provider.requests, provider.trace_parents, strict=True)
    assert [context_of(text) for (target, _), text in received if "/review" in target] == [context(post)]
    authorizations = {span.span_id for span in servicer.named("authorization")}
    sent = {context(span) for span in servicer.named("HTTP POST") if span.parent_span_id in authorizations}
    assert sent
    assert sent <= {context_of(text) for text in provider.trace_parents}
    (log,) = [span for span in servicer.named("KubernetesAPI") if "/log" in attributes(span)["http.target"]]
    assert context_of(seen["traceparent"]) == context(log)


async def test_context_is_propagated_to_etcd(collector: tuple[Collector, str]) -> None:
    servicer, endpoint = collector
    received: list[dict[str, str]] = []

    async def range_(request: rpc.RangeRequest, context: grpc.aio.ServicerContext) -> rpc.RangeResponse:
        received.append(dict(context.invocation_metadata() or ()))
        return rpc.RangeResponse()

    handler = grpc.unary_unary_rpc_method_handler(
        range_, rpc.RangeRequest.FromString, lambda response: response.SerializeToString()
    )
    server = grpc.aio.server()
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("etcdserverpb.KV", {"Range": handler})])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    enabled = tracing.Tracing("apiserver", endpoint, tracing.MILLION)
    client = EtcdClient([f"http://127.0.0.1:{port}"], TlsFiles())
    tracing.configure(enabled)
    try:
        await client.range(b"/outside")
        with tracing.span("List"):
            await client.range(b"/inside")
    finally:
        tracing.configure(None)
        await tracing.close_provider(enabled.provider)
        await client.close()
        await server.stop(None)

    (parent,), (call,) = servicer.named("List"), servicer.named("etcdserverpb.KV/Range")
    assert call.parent_span_id == parent.span_id
    outside, inside = received
    assert "traceparent" not in outside
    assert context_of(inside["traceparent"]) == context(call)


async def test_current_span_replaces_the_context_of_a_forwarded_request(collector: tuple[Collector, str]) -> None:
    servicer, endpoint = collector
    fields = CIMultiDict({"Traceparent": f"00-{_TRACE}-00f067aa0ba902b7-01", "Baggage": "a=b", "Accept": "text/plain"})
    http = cast(HttpRequest, SimpleNamespace(headers=fields, remote=None))
    enabled = tracing.Tracing("apiserver", endpoint, tracing.MILLION)

    before = forwarded(http)
    tracing.configure(enabled)
    try:
        with tracing.span("KubernetesAPI"):
            found = forwarded(http)
    finally:
        tracing.configure(None)
        await tracing.close_provider(enabled.provider)

    assert before == fields
    assert sorted(found) == ["Accept", "traceparent"]
    assert context_of(found["traceparent"]) == context(servicer.named("KubernetesAPI")[0])


def context(span: Any) -> tuple[str, str]:
    return span.trace_id.hex(), span.span_id.hex()


def context_of(header: str) -> tuple[str, str]:
    """Return the IDs of trace and span in *header*, which states that the trace is sampled."""
    _, trace, span, flags = header.split("-")
    assert int(flags, 16) & 1
    return trace, span


async def create(client: Client, path: str, body: Any) -> None:
    code, _, reply = await client("POST", path, json=body)
    assert code == 201, reply


def configuration(provider: Provider) -> Any:
    bundle = base64.b64encode(provider.authority.certificate).decode()
    rule = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["configmaps"]}
    hook = {
        "name": "a.example.com",
        "clientConfig": {"url": f"{provider.url}/review", "caBundle": bundle},
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {"metadata": {"name": "hook"}, "webhooks": [hook]}


def admit(review: Any) -> tuple[int, Any]:
    response = {"uid": review["request"]["uid"], "allowed": True}
    return 200, {"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response}


def node(port: int) -> Any:
    addresses = [{"type": "InternalIP", "address": "127.0.0.1"}]
    status = {"addresses": addresses, "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}
    return {"metadata": {"name": "n"}, "status": status}


@pytest.mark.row("opt.tracing-config-file")
async def test_zero_sampling_rate_or_disabled_gate_exports_nothing(
    tmp_path: Path, collector: tuple[Collector, str]
) -> None:
    servicer, endpoint = collector
    await calls(tmp_path / "data", config(tmp_path / "t", f"endpoint: {endpoint}"))
    await calls(tmp_path / "data", "--tracing-config-file=/nope", "--feature-gates=APIServerTracing=false")
    assert servicer.spans == []


@pytest.mark.row("opt.tracing-config-file")
@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["samplingRatePerMillion: -1"], "samplingRatePerMillion: Invalid value: -1: sampling rate must be positive"),
        (["samplingRatePerMillion: 1000001"], "less than or equal to one million"),
        (["endpoint: http://x"], "endpoint: Invalid value"),
        (["kind: Other"], "duplicate key"),
        (["nonsense: 1"], "nonsense"),
    ],
)
async def test_invalid_configuration_prevents_start(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(TracingError, match=message):
        await start(tmp_path / "data", config(tmp_path / "t", *lines))
    with pytest.raises(TracingError, match="unable to read tracing configuration from"):
        await start(tmp_path / "data", f"--tracing-config-file={tmp_path}/nope")
