"""Tracing: spans of this process, exported to an OTLP collector; without cost or imports while it is disabled.

Only this module imports ``opentelemetry``. A span covers a block of code::

    with tracing.span("syncPod", lambda: {"k8s.pod.name": pod.name}):
        ...

spec: config.tracing, opt.tracing-config-file
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import Sampler

_log = logging.getLogger(__name__)

DEFAULT_ENDPOINT = "localhost:4317"
CLOSE_SECONDS = 5.0
MILLION = 1_000_000
Kind = Literal["internal", "server", "client"]
Attributes = Mapping[str, str | int | bool]
_T = TypeVar("_T")
_OFF: AbstractContextManager[None] = nullcontext()
_NOTHING: Mapping[str, str] = {}
_NO_ATTRIBUTES: Attributes = {}


def open_provider(
    service: str, endpoint: str | None, sampler: Sampler, attributes: Attributes = _NO_ATTRIBUTES
) -> TracerProvider:
    """Return a provider that creates spans of *service* and exports them to *endpoint* in background, without TLS."""
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create({"service.name": service, **attributes})
    provider = TracerProvider(sampler=sampler, resource=resource, shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=endpoint or DEFAULT_ENDPOINT, insecure=True)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


async def close_provider(provider: TracerProvider) -> None:
    """Export the remaining spans, within a time limit."""
    ending = asyncio.ensure_future(asyncio.to_thread(provider.shutdown))
    done, _ = await asyncio.wait((ending,), timeout=CLOSE_SECONDS)
    if not done:
        _log.warning("Failed to export remaining spans")


class Tracing:
    """Spans of one process, continued from incoming requests and propagated to outgoing ones.

    A sampled parent span is always continued; other requests are sampled at the configured rate.
    """

    def __init__(
        self, service: str, endpoint: str | None, per_million: int, attributes: Attributes = _NO_ATTRIBUTES
    ) -> None:
        from opentelemetry.baggage.propagation import W3CBaggagePropagator
        from opentelemetry.propagators.composite import CompositePropagator
        from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, TraceIdRatioBased
        from opentelemetry.trace import INVALID_SPAN, Link, SpanKind, StatusCode, get_current_span, set_span_in_context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._current, self._failed, self._link = get_current_span, StatusCode.ERROR, Link
        self._without_parent: Callable[[Context], Context] = partial(set_span_in_context, INVALID_SPAN)
        self._kinds = {"internal": SpanKind.INTERNAL, "server": SpanKind.SERVER, "client": SpanKind.CLIENT}
        self._propagator = CompositePropagator([TraceContextTextMapPropagator(), W3CBaggagePropagator()])
        root = TraceIdRatioBased(per_million / MILLION) if per_million else ALWAYS_OFF
        self.provider = open_provider(service, endpoint, ParentBased(root), attributes)
        self._tracer = self.provider.get_tracer(service)

    @contextmanager
    def span(
        self, name: str, attributes: Callable[[], Attributes] | None, kind: Kind, caller: Mapping[str, str] | None
    ) -> Iterator[None]:
        context = self._extract(caller) if caller is not None else None
        values: Any = attributes() if attributes is not None else None
        with self._tracer.start_as_current_span(name, context=context, kind=self._kinds[kind], attributes=values):
            yield

    @contextmanager
    def root(self, name: str, caller: Mapping[str, str]) -> Iterator[None]:
        """Start the trace of a request whose *caller* must not control the sampling: its span is linked, no parent."""
        context = self._extract(caller)
        sent = self._current(context).get_span_context()
        with self._tracer.start_as_current_span(
            name,
            context=self._without_parent(context),
            kind=self._kinds["server"],
            links=[self._link(sent)] if sent.is_valid else [],
            record_exception=False,
            set_status_on_exception=False,
        ):
            yield

    def child(
        self, name: str, attributes: Callable[[], Attributes] | None, kind: Kind
    ) -> AbstractContextManager[object]:
        if not self._current().is_recording():
            return _OFF
        values: Any = attributes() if attributes is not None else None
        return self._tracer.start_as_current_span(
            name, kind=self._kinds[kind], attributes=values, record_exception=False, set_status_on_exception=False
        )

    def event(self, name: str, attributes: Attributes) -> None:
        if (current := self._current()).is_recording():
            current.add_event(name, attributes)

    def annotate(self, attributes: Callable[[], Attributes], *, failed: bool) -> None:
        if (current := self._current()).is_recording():
            current.set_attributes(attributes())
            if failed:
                current.set_status(self._failed)

    def outgoing(self) -> Mapping[str, str]:
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier)
        return carrier

    def _extract(self, headers: Mapping[str, str]) -> Context:
        return self._propagator.extract({name.lower(): value for name, value in headers.items()})


class _Holder:
    tracing: Tracing | None = None


def configure(tracing: Tracing | None) -> None:
    """Enable *tracing* for the process, or disable it with ``None``."""
    _Holder.tracing = tracing


def span(
    name: str,
    attributes: Callable[[], Attributes] | None = None,
    *,
    kind: Kind = "internal",
    caller: Mapping[str, str] | None = None,
) -> AbstractContextManager[None]:
    """Return a context manager for one span; an exception that leaves it is recorded in the span.

    :param attributes: called only while tracing is enabled.
    :param caller: headers of the incoming request, whose span becomes the parent; without them, the enclosing span.
    """
    tracing = _Holder.tracing
    return _OFF if tracing is None else tracing.span(name, attributes, kind, caller)


def child(
    name: str, attributes: Callable[[], Attributes] | None = None, *, kind: Kind = "internal"
) -> AbstractContextManager[object]:
    """Return a context manager for one span within a sampled span; nothing is recorded outside of one.

    :param attributes: called only if the span is recorded.
    """
    tracing = _Holder.tracing
    return _OFF if tracing is None else tracing.child(name, attributes, kind)


def during(
    name: str, work: Awaitable[_T], attributes: Callable[..., Attributes] | None = None, *of: object
) -> Awaitable[_T]:
    """Return *work* within a span as of :func:`child`; *work* itself while tracing is disabled.

    :param attributes: called with *of*, only if the span is recorded.
    """
    if _Holder.tracing is None:
        return work
    return _during(name, work, None if attributes is None else partial(attributes, *of))


async def _during(name: str, work: Awaitable[_T], attributes: Callable[[], Attributes] | None) -> _T:
    with child(name, attributes):
        return await work


def event(name: str, attributes: Attributes = _NO_ATTRIBUTES) -> None:
    """Record in the current span that something happened now."""
    if (tracing := _Holder.tracing) is not None:
        tracing.event(name, attributes)


def annotate(attributes: Callable[[], Attributes], *, failed: bool = False) -> None:
    """Add *attributes* to the current span, and mark it as *failed*."""
    if (tracing := _Holder.tracing) is not None:
        tracing.annotate(attributes, failed=failed)


def outgoing() -> Mapping[str, str]:
    """Return the headers that propagate the current span to the server of a request; empty while disabled."""
    tracing = _Holder.tracing
    return _NOTHING if tracing is None else tracing.outgoing()
