"""Tests for tracing: spans, propagation and sampling; no calls and no imports while it is disabled."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler
from opentelemetry.trace import SpanKind

from nodeagent.base import tracing


def test_disabled_tracing_computes_no_attributes_and_sends_no_headers() -> None:
    def never() -> dict[str, str]:
        raise AssertionError("asked")

    with tracing.span("syncPod", never):
        assert tracing.outgoing() == {}
    assert tracing.span("a") is tracing.span("b")
    with tracing.child("Create", never):
        tracing.event("About to store object in database")
        tracing.annotate(never, failed=True)


async def test_disabled_tracing_returns_awaitables_unchanged() -> None:
    async def work() -> str:
        return "done"

    awaited = work()
    assert tracing.during("Get", awaited, dict) is awaited
    assert await awaited == "done"


def test_exception_leaves_a_span_unchanged() -> None:
    with pytest.raises(LookupError), tracing.span("syncPod"):
        raise LookupError


def test_disabled_tracing_imports_no_library() -> None:
    code = "import nodeagent.base.tracing, nodeagent_plugins.tracing, sys; print('opentelemetry' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Completed spans; tests enable tracing with :func:`enable`."""
    exporter = InMemorySpanExporter()

    def open_provider(service: str, endpoint: str | None, sampler: Sampler, attributes: object) -> TracerProvider:
        provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        return provider

    monkeypatch.setattr(tracing, "open_provider", open_provider)
    yield exporter
    tracing.configure(None)


def enable(per_million: int = tracing.MILLION) -> None:
    tracing.configure(tracing.Tracing("agent", None, per_million))


TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CALLER = {"Traceparent": f"00-{TRACE}-{SPAN}-01"}


def test_span_continues_that_of_the_caller(spans: InMemorySpanExporter) -> None:
    enable()

    with tracing.span("request", lambda: {"verb": "get"}, kind="server", caller=CALLER):
        headers = tracing.outgoing()
        with tracing.span("step"):
            tracing.event("done", {"n": 1})

    inner, outer = spans.get_finished_spans()
    assert (outer.name, dict(outer.attributes or {}), outer.kind) == ("request", {"verb": "get"}, SpanKind.SERVER)
    assert outer.parent is not None and f"{outer.parent.span_id:016x}" == SPAN
    assert headers["traceparent"] == f"00-{TRACE}-{outer.context.span_id:016x}-01"
    assert inner.parent is not None and inner.parent.span_id == outer.context.span_id
    assert [(event.name, dict(event.attributes or {})) for event in inner.events] == [("done", {"n": 1})]


@pytest.mark.parametrize(("caller", "links"), [(CALLER, 1), ({}, 0)])
def test_root_links_the_caller_that_must_not_control_the_sampling(
    spans: InMemorySpanExporter, caller: dict[str, str], links: int
) -> None:
    enable()
    configured = tracing._Holder.tracing
    assert configured is not None

    with configured.root("request", caller):
        pass

    (span,) = spans.get_finished_spans()
    assert span.parent is None
    assert f"{span.context.trace_id:032x}" != TRACE
    assert [f"{link.context.span_id:016x}" for link in span.links] == [SPAN] * links


@pytest.mark.parametrize(("caller", "names"), [(CALLER, ["child", "request"]), (None, [])])
def test_only_sampled_requests_have_spans_without_a_rate(
    spans: InMemorySpanExporter, caller: dict[str, str] | None, names: list[str]
) -> None:
    enable(0)

    def attributes() -> dict[str, str]:
        assert names, "attributes are computed only for recorded spans"
        return {"a": "b"}

    with tracing.span("request", caller=caller), tracing.child("child", attributes):
        tracing.annotate(attributes)
        tracing.event("stored")

    found = spans.get_finished_spans()
    assert [span.name for span in found] == names
    assert all(dict(span.attributes or {}) == {"a": "b"} for span in found if span.name == "child")


def test_child_outside_of_a_span_is_not_recorded(spans: InMemorySpanExporter) -> None:
    enable()

    with tracing.child("child"):
        tracing.event("stored")
        tracing.annotate(dict, failed=True)

    assert spans.get_finished_spans() == ()


@pytest.mark.parametrize("failed", [True, False])
async def test_work_has_a_span_that_can_be_marked_as_failed(spans: InMemorySpanExporter, failed: bool) -> None:
    enable()

    async def work() -> int:
        tracing.annotate(lambda: {"code": 7}, failed=failed)
        return 7

    with tracing.span("request"):
        assert await tracing.during("Get", work(), lambda kind: {"kind": kind}, "Pod") == 7
        assert await tracing.during("Get", work()) == 7

    first, second, _ = spans.get_finished_spans()
    assert dict(first.attributes or {}) == {"kind": "Pod", "code": 7}
    assert dict(second.attributes or {}) == {"code": 7}
    assert first.status.is_ok == (not failed)


@pytest.mark.parametrize("ends", [True, False])
async def test_export_of_the_remaining_spans_has_a_time_limit(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, ends: bool
) -> None:
    go = threading.Event()

    class Provider:
        def shutdown(self) -> None:
            go.wait(5)

    if ends:
        go.set()
    else:
        monkeypatch.setattr(tracing, "CLOSE_SECONDS", 0.01)
    provider: Any = Provider()

    await tracing.close_provider(provider)
    go.set()

    assert ("Failed to export remaining spans" in caplog.messages) == (not ends)
