"""Tracing: spans of this process, exported to an OTLP collector; without cost or imports while it is disabled.

Only this module imports ``opentelemetry``. A span covers a block of code::

    with tracing.span("syncPod", lambda: {"k8s.pod.name": pod.name}):
        ...

spec: config.tracing, opt.tracing-config-file
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import Sampler

_log = logging.getLogger(__name__)

DEFAULT_ENDPOINT = "localhost:4317"
CLOSE_SECONDS = 5.0
MILLION = 1_000_000
Kind = Literal["internal", "server", "client"]
Attributes = Mapping[str, str | int]
_OFF: AbstractContextManager[None] = nullcontext()
_NOTHING: Mapping[str, str] = {}


def open_provider(
    service: str, endpoint: str | None, sampler: Sampler, attributes: Attributes = _NOTHING
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

    def __init__(self, service: str, endpoint: str | None, per_million: int, attributes: Attributes = _NOTHING) -> None:
        from opentelemetry.baggage.propagation import W3CBaggagePropagator
        from opentelemetry.propagators.composite import CompositePropagator
        from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, TraceIdRatioBased
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._kinds = {"internal": SpanKind.INTERNAL, "server": SpanKind.SERVER, "client": SpanKind.CLIENT}
        self._propagator = CompositePropagator([TraceContextTextMapPropagator(), W3CBaggagePropagator()])
        root = TraceIdRatioBased(per_million / MILLION) if per_million else ALWAYS_OFF
        self.provider = open_provider(service, endpoint, ParentBased(root), attributes)
        self._tracer = self.provider.get_tracer(service)

    @contextmanager
    def span(
        self, name: str, attributes: Callable[[], Attributes] | None, kind: Kind, caller: Mapping[str, str] | None
    ) -> Iterator[None]:
        context = self._propagator.extract({k.lower(): v for k, v in caller.items()}) if caller is not None else None
        values: Any = attributes() if attributes is not None else None
        with self._tracer.start_as_current_span(name, context=context, kind=self._kinds[kind], attributes=values):
            yield

    def outgoing(self) -> Mapping[str, str]:
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier)
        return carrier


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


def outgoing() -> Mapping[str, str]:
    """Return the headers that propagate the current span to the server of a request; empty while disabled."""
    tracing = _Holder.tracing
    return _NOTHING if tracing is None else tracing.outgoing()
