"""Tracing of requests, with export to a collector over OTLP (spec: opt.tracing-config-file).

``opentelemetry`` is imported when a configuration file is given.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from apiserver_stub.transport.response_writer import audit_id
from nodeagent.base import tracing, yamlsafe
from nodeagent.base.identity import Identity
from nodeagent.base.tracing import MILLION

if TYPE_CHECKING:
    from apiserver_stub.transport.http import HttpRequest

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
    """Spans of requests and their steps, exported in the background; lost while the collector is unavailable.

    The span of a request is always the first of its trace: the one of the client is linked, not continued, because
    clients must not control the sampling of this server.
    """

    def __init__(self, config: TracingConfig) -> None:
        """Enable tracing for the process, until :meth:`close`."""
        self._tracing = tracing.Tracing(_SERVICE, config.endpoint, config.sampling_rate_per_million or 0)
        tracing.configure(self._tracing)

    def request(self, http: HttpRequest) -> AbstractContextManager[None]:
        """Return a context manager for the span of a request."""
        return self._tracing.root(_SPAN, http.headers)

    def responded(self, http: HttpRequest, code: int, verb: str) -> None:
        """Add the attributes of a request and its response to its span, which is the current one."""
        self._tracing.annotate(lambda: _attributes(http, code, verb), failed=code >= 500)

    async def close(self) -> None:
        """Export the remaining spans, within a time limit."""
        tracing.configure(None)
        await tracing.close_provider(self._tracing.provider)


def _attributes(http: HttpRequest, code: int, verb: str) -> tracing.Attributes:
    return {
        "http.method": http.method,
        "http.target": http.target,
        "http.status_code": code,
        "http.user_agent": http.headers.get("User-Agent", ""),
        "http.flavor": f"{http.version[0]}.{http.version[1]}" if http.version < (2, 0) else "2",
        "net.sock.peer.addr": http.remote or "",
        "audit-id": audit_id(http),
        "verb": verb,
    }
