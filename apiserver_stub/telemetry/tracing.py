"""Spans of requests, sent to a collector over OTLP (spec: opt.tracing-config-file).

``opentelemetry`` is imported when a configuration file is given.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from apiserver_stub.transport.http import HttpRequest
from nodeagent.base import yamlsafe
from nodeagent.base.identity import Identity
from nodeagent.base.tracing import MILLION, close_provider, open_provider

_SPAN = "KubernetesAPI"
_SERVICE = "apiserver"
_VERSIONS = ("v1beta1", "v1alpha1")


class TracingError(Exception):
    """The configuration file is invalid; the text lists all problems."""


class TracingConfig(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The tracing configuration file."""

    api_version: str = ""
    kind: str = ""
    endpoint: str | None = None
    sampling_rate_per_million: int | None = None

    @property
    def rate(self) -> float:
        """Fraction of requests that are sampled."""
        return (self.sampling_rate_per_million or 0) / MILLION


def load_config(path: Path, identity: Identity) -> TracingConfig:
    """Read the tracing configuration in *path*.

    :raises TracingError: it cannot be read or is invalid.
    """
    try:
        document = yamlsafe.load(path.read_bytes())
    except OSError as error:
        shown = f"open {path}: {(error.strerror or str(error)).lower()}"
        raise TracingError(
            f'failed to read tracing config: unable to read tracing configuration from "{path}": {shown}'
        ) from None
    except yamlsafe.YamlError as error:
        raise TracingError(f"failed to read tracing config: {error}") from None
    try:
        config = msgspec.convert(document, TracingConfig)
    except msgspec.ValidationError as error:
        raise TracingError(f"failed to read tracing config: {error}") from None
    group = f"{_SERVICE}.config.{identity.api_domain}"
    if config.kind != "TracingConfiguration" or config.api_version not in [f"{group}/{name}" for name in _VERSIONS]:
        kind = f'no kind "{config.kind}" is registered for version "{config.api_version}"'
        raise TracingError(f"failed to read tracing config: {kind}")
    if problems := _problems(config):
        raise TracingError(f"failed to validate tracing configuration: {', '.join(problems)}")
    return config


def _problems(config: TracingConfig) -> list[str]:
    problems, rate = [], config.sampling_rate_per_million or 0
    if rate < 0:
        problems.append(f"samplingRatePerMillion: Invalid value: {rate}: sampling rate must be positive")
    if rate > MILLION:
        text = "sampling rate per million must be less than or equal to one million"
        problems.append(f"samplingRatePerMillion: Invalid value: {rate}: {text}")
    if config.endpoint is not None:
        scheme = urlsplit(config.endpoint).scheme if "//" in config.endpoint else "dns"
        if scheme not in ("dns", "unix", "unix-abstract", "passthrough"):
            text = f"unsupported scheme: {scheme}.  Options are dns, unix, or passthrough"
            problems.append(f'endpoint: Invalid value: "{config.endpoint}": {text}')
    return problems


class Tracing:
    """Exports spans of requests in the background; spans are lost while the collector is unavailable."""

    def __init__(self, config: TracingConfig) -> None:
        from opentelemetry.sdk.trace.sampling import ALWAYS_ON
        from opentelemetry.trace import Link, SpanKind, Status, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._link, self._server, self._status, self._failed = Link, SpanKind.SERVER, Status, StatusCode.ERROR
        self._propagator = TraceContextTextMapPropagator()
        self._rate = config.rate
        self._provider = open_provider(_SERVICE, config.endpoint, ALWAYS_ON)
        self._tracer = self._provider.get_tracer("apiserver_stub")

    def note(self, http: HttpRequest, code: int, seconds: float, verb: str, audit_id: str) -> None:
        """Record the span of a request that took *seconds* and ends now, if it is sampled.

        The span of the client is linked, not continued: clients must not control the sampling of this server.
        """
        if not self._rate or random.random() >= self._rate:  # noqa: S311 - a sample
            return
        end = time.time_ns()
        attributes: dict[str, Any] = {
            "http.method": http.method,
            "http.target": http.target,
            "http.status_code": code,
            "http.user_agent": http.headers.get("User-Agent", ""),
            "audit-id": audit_id,
            "verb": verb,
        }
        span = self._tracer.start_span(
            _SPAN,
            kind=self._server,
            attributes=attributes,
            links=self._links(http.headers),
            start_time=end - int(seconds * 1e9),
        )
        if code >= 500:
            span.set_status(self._status(self._failed))
        span.end(end)

    def _links(self, headers: Mapping[str, str]) -> list[Any]:
        if "traceparent" not in headers:
            return []
        from opentelemetry.trace import get_current_span

        carrier = {name.lower(): value for name, value in headers.items()}
        context = get_current_span(self._propagator.extract(carrier)).get_span_context()
        return [self._link(context)] if context.is_valid else []

    async def close(self) -> None:
        """Send what is left, within a limit."""
        await close_provider(self._provider)
