"""Tests for health endpoints and the metrics of their checks."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.aggregation.remotes import Remotes
from apiserver_stub.apimachinery.media import PLAIN
from apiserver_stub.apimachinery.request import ANONYMOUS, Query, Request, RequestInfo
from apiserver_stub.endpoints import health
from apiserver_stub.kinds import build_registry
from apiserver_stub.options import Options
from apiserver_stub.pipeline.dispatch import dispatch
from apiserver_stub.pipeline.error_responses import PlainNotFound
from apiserver_stub.telemetry.exposition import Choice


class Stuck:
    """Check of a store that does not respond."""

    async def problem(self) -> str:
        return "context deadline exceeded"


@pytest.fixture
def server() -> Any:
    return server_with(Options())


def server_with(options: Options) -> Any:
    return SimpleNamespace(
        ready=True,
        leaving=False,
        in_livez_grace=False,
        storage_checks={"etcd": Stuck()},
        health=health.Outcomes(),
        metric_choice=Choice(),
        options=options,
        registry=build_registry(options),
        remotes=Remotes(),
    )


def asked(path: str, query: str = "") -> Request:
    return Request("GET", RequestInfo("get", path), Query(query), {}, b"", ANONYMOUS, PLAIN)


async def test_checks_are_counted_by_path_and_result(server: Any) -> None:
    for path, query in (("/livez", ""), ("/readyz", "exclude=etcd"), ("/livez", "exclude=etcd"), ("/livez/etcd", "")):
        await health.answer(server, asked(path, query))

    rendered = await dispatch(server, asked("/metrics/slis"), None)
    text = b"".join(rendered.pieces).decode()

    assert rendered.content_type == "text/plain; version=0.0.4; charset=utf-8"
    assert 'kubernetes_healthcheck{name="ping",type="livez"} 1\n' in text
    assert 'kubernetes_healthcheck{name="etcd",type="livez"} 0\n' in text
    assert 'kubernetes_healthchecks_total{name="ping",type="livez",status="success"} 2\n' in text
    assert 'kubernetes_healthchecks_total{name="etcd",type="livez",status="error"} 1\n' in text
    assert 'name="shutdown",type="readyz"' in text
    assert 'name="etcd",type="readyz"' not in text


@pytest.mark.row("gate.ComponentSLIs")
async def test_disabled_gate_hides_the_slis_metrics() -> None:
    there, missing = server_with(Options()), server_with(Options(feature_gates={"ComponentSLIs": False}))

    assert (await dispatch(there, asked("/metrics/slis"), None)).code == 200
    with pytest.raises(PlainNotFound):
        await dispatch(missing, asked("/metrics/slis"), None)


async def test_failure_reason_is_logged_but_not_returned(server: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(1, logger="apiserver_stub")

    reply = await health.answer(server, asked("/readyz"))

    assert reply is not None and (reply.code, b"deadline" in reply.body) == (500, False)
    found = [record for record in caplog.records if record.levelno < logging.INFO]
    assert [vars(record)["err"] for record in found] == ["context deadline exceeded"]


async def test_unknown_excluded_checks_are_reported_once_in_order(server: Any) -> None:
    reply = await health.answer(server, asked("/livez", "verbose&exclude=z&exclude=a&exclude=z&exclude=etcd"))

    assert reply is not None
    assert b'warn: some health checks cannot be excluded: no matches for "a", "z"\n' in reply.body


async def test_trailing_slash_selects_the_same_endpoint(server: Any) -> None:
    for path in ("/healthz/", "/version/", "/metrics/slis/", "/apis/"):
        assert (await dispatch(server, asked(path), None)).code == (500 if path == "/healthz/" else 200)
