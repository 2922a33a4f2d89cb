"""Spans of what a program does, sent to a collector over OTLP; nothing is imported and nothing costs while it is off.

The one home of ``opentelemetry``. A span is opened where work happens and ends with its block::

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
    """Return what makes spans of *service* and sends them to *endpoint* in the background, without TLS."""
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
    """Send what is left, within a limit."""
    ending = asyncio.ensure_future(asyncio.to_thread(provider.shutdown))
    done, _ = await asyncio.wait((ending,), timeout=CLOSE_SECONDS)
    if not done:
        _log.warning("Spans that are left could not be sent")


class Tracing:
    """Spans of one program, followed from its callers on and handed on to whom it calls.

    A caller's sampled span is always followed; others are sampled at the given rate.
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
        given: Any = attributes() if attributes is not None else None
        with self._tracer.start_as_current_span(name, context=context, kind=self._kinds[kind], attributes=given):
            yield

    def outgoing(self) -> Mapping[str, str]:
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier)
        return carrier


class _Holder:
    tracing: Tracing | None = None


def configure(tracing: Tracing | None) -> None:
    """Put *tracing* in force, or end it."""
    _Holder.tracing = tracing


def span(
    name: str,
    attributes: Callable[[], Attributes] | None = None,
    *,
    kind: Kind = "internal",
    caller: Mapping[str, str] | None = None,
) -> AbstractContextManager[None]:
    """Return a block that is one span; an error that leaves it is told in the span.

    :param attributes: asked only while spans are made.
    :param caller: headers of who asked; its span is the parent. Without them the span around this one is.
    """
    tracing = _Holder.tracing
    return _OFF if tracing is None else tracing.span(name, attributes, kind, caller)


def outgoing() -> Mapping[str, str]:
    """Return the headers by which whom we call learns of the span around us; empty while tracing is off."""
    tracing = _Holder.tracing
    return _NOTHING if tracing is None else tracing.outgoing()
