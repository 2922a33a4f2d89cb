"""Tests for health endpoints and the metrics of their checks."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.aggregation.remotes import Remotes
from apiserver_stub.apimachinery.media import PLAIN
from apiserver_stub.apimachinery.request import ANONYMOUS, Query, Request, RequestInfo
from apiserver_stub.endpoints.discovery import Discovery, DiscoverySettings
from apiserver_stub.endpoints.health import Health, Outcomes
from apiserver_stub.endpoints.metrics import Metrics
from apiserver_stub.lifecycle import Lifecycle
from apiserver_stub.options import Options
from apiserver_stub.pipeline.dispatch import Dispatcher
from apiserver_stub.pipeline.error_responses import PlainNotFound
from apiserver_stub.server.kinds import build_registry
from apiserver_stub.subresources import Handlers
from apiserver_stub.telemetry.exposition import Choice
from nodeagent.base.identity import Identity


class Stuck:
    """Check of a store that does not respond."""

    async def problem(self) -> str:
        return "context deadline exceeded"


@pytest.fixture
def endpoint() -> Health:
    return Health(started(), {"etcd": Stuck()})


def started() -> Lifecycle:
    lifecycle = Lifecycle()
    lifecycle.ready = True
    return lifecycle


def dispatcher(endpoint: Health, outcomes: Outcomes | None) -> Dispatcher:
    """Return a dispatcher of *endpoint* and the endpoints whose paths may end with a slash."""
    registry: Any = build_registry(Options())
    discovery = Discovery(registry, Remotes(Identity()), lambda: "127.0.0.1:6443", DiscoverySettings())
    endpoints = [discovery, endpoint, Metrics(Choice(), [], outcomes)]
    return Dispatcher(SimpleNamespace(), Handlers(), endpoints, SimpleNamespace())  # type: ignore[arg-type]


def requested(path: str, query: str = "") -> Request:
    return Request("GET", RequestInfo("get", path), Query(query), {}, b"", ANONYMOUS, PLAIN, Identity())


def test_paths_contain_each_check(endpoint: Health) -> None:
    paths = endpoint.paths()

    assert {"/healthz", "/livez/etcd", "/readyz/shutdown", "/healthz/ping"}.issubset(paths)
    assert "/livez/shutdown" not in paths


async def test_checks_are_counted_by_path_and_result(endpoint: Health) -> None:
    for path, query in (("/livez", ""), ("/readyz", "exclude=etcd"), ("/livez", "exclude=etcd"), ("/livez/etcd", "")):
        await endpoint.respond(requested(path, query))

    rendered = await dispatcher(endpoint, endpoint.outcomes).dispatch(requested("/metrics/slis"), None)
    text = b"".join(rendered.pieces).decode()

    assert rendered.content_type == "text/plain; version=0.0.4; charset=utf-8"
    assert 'kubernetes_healthcheck{name="ping",type="livez"} 1\n' in text
    assert 'kubernetes_healthcheck{name="etcd",type="livez"} 0\n' in text
    assert 'kubernetes_healthchecks_total{name="ping",type="livez",status="success"} 2\n' in text
    assert 'kubernetes_healthchecks_total{name="etcd",type="livez",status="error"} 1\n' in text
    assert 'name="shutdown",type="readyz"' in text
    assert 'name="etcd",type="readyz"' not in text


async def test_disabled_gate_hides_the_slis_metrics(endpoint: Health) -> None:
    with pytest.raises(PlainNotFound):
        await dispatcher(endpoint, None).dispatch(requested("/metrics/slis"), None)


async def test_failure_reason_is_logged_but_not_returned(endpoint: Health, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(1, logger="apiserver_stub")

    reply = await endpoint.respond(requested("/readyz"))

    assert reply is not None and (reply.code, b"deadline" in reply.body) == (500, False)
    found = [record for record in caplog.records if record.levelno < logging.INFO]
    assert [(record.getMessage(), vars(record)["err"]) for record in found] == [
        ("etcd check failed: readyz", "etcd: context deadline exceeded")
    ]


async def test_unknown_excluded_checks_are_reported_once_in_order(endpoint: Health) -> None:
    reply = await endpoint.respond(requested("/livez", "verbose&exclude=z&exclude=a&exclude=z&exclude=etcd"))

    assert reply is not None
    assert b'warn: some health checks cannot be excluded: no matches for "a", "z"\n' in reply.body


async def test_trailing_slash_selects_the_same_endpoint(endpoint: Health) -> None:
    for path in ("/healthz/", "/version/", "/metrics/slis/", "/apis/"):
        assert (await dispatcher(endpoint, endpoint.outcomes).dispatch(requested(path), None)).code == (
            500 if path == "/healthz/" else 200
        )


class Working:
    """Check of a store that responds."""

    async def problem(self) -> str:
        return ""


async def checked(lifecycle: Lifecycle, path: str, query: str = "", **checks: Any) -> tuple[int, list[str]]:
    """Return the code and the lines of the response."""
    stores = {"etcd": Working(), "etcd-readiness": Working()} | checks
    reply = await Health(lifecycle, stores).respond(requested(path, query))  # type: ignore[arg-type]
    assert reply is not None and reply.body is not None
    return reply.code, reply.body.decode().splitlines()


STARTED = "[+]poststarthook/start-system-namespaces-controller ok"


async def test_passed_checks_are_listed_on_request() -> None:
    lifecycle = started()

    for path in ("/healthz", "/livez", "/readyz"):
        assert await checked(lifecycle, path) == (200, ["ok"]), path
    for root, further in (("healthz", []), ("livez", []), ("readyz", ["[+]etcd-readiness ok"])):
        ends = ["[+]shutdown ok"] if root == "readyz" else []
        lines = ["[+]ping ok", "[+]etcd ok", *further, STARTED, *ends, f"{root} check passed"]
        assert await checked(lifecycle, f"/{root}", "verbose") == (200, lines)


async def test_failed_checks_are_listed_unless_excluded() -> None:
    lifecycle = started()

    failed = await checked(lifecycle, "/livez", etcd=Stuck())
    excluded = await checked(lifecycle, "/livez", "exclude=etcd", etcd=Stuck())
    listed = await checked(lifecycle, "/livez", "exclude=etcd&verbose", etcd=Stuck())
    assert failed == (500, ["[+]ping ok", "[-]etcd failed: reason withheld", STARTED, "livez check failed"])
    assert excluded == (200, ["ok"])
    assert listed == (200, ["[+]ping ok", "[+]etcd excluded: ok", STARTED, "livez check passed"])


async def test_single_check_states_its_problem() -> None:
    lifecycle = started()

    assert await checked(lifecycle, "/livez/ping") == (200, ["ok"])
    failed = await checked(lifecycle, "/livez/etcd", etcd=Stuck())
    assert failed == (500, ["internal server error: context deadline exceeded"])
    for path in ("/livez/unknown", "/livez/etcd-readiness", "/other", "/livez/shutdown"):
        assert await Health(lifecycle, {"etcd-readiness": Working()}).respond(requested(path)) is None, path


async def test_incomplete_start_fails_except_for_the_grace_period() -> None:
    hook = "/poststarthook/start-system-namespaces-controller"

    for root in ("healthz", "livez", "readyz"):
        assert (await checked(Lifecycle(), f"/{root}"))[0] == 500, root
        assert await checked(Lifecycle(), f"/{root}{hook}") == (500, ["internal server error: not finished"]), root
        assert (await checked(Lifecycle(3600), f"/{root}"))[0] == (200 if root == "livez" else 500), root


async def test_shutdown_fails_the_readiness_only() -> None:
    lifecycle = started()
    lifecycle.terminating = True

    assert (await checked(lifecycle, "/readyz"))[0] == 500
    assert await checked(lifecycle, "/readyz/shutdown") == (500, ["internal server error: process is shutting down"])
    assert await checked(lifecycle, "/livez") == (200, ["ok"])
