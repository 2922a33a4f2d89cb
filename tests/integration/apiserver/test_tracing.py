"""Tests for the export of request spans and sampling."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from apiserver_stub.telemetry.tracing import TracingError
from tests.integration.collector import Collector, collecting

from .in_process import start

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


@pytest.mark.row("opt.tracing-config-file")
async def test_request_is_exported_as_a_span(tmp_path: Path, collector: tuple[Collector, str]) -> None:
    servicer, endpoint = collector

    await calls(tmp_path / "data", config(tmp_path / "t", f"endpoint: {endpoint}", "samplingRatePerMillion: 1000000"))

    assert "apiserver" in servicer.services
    found = [{item.key: item.value for item in span.attributes} for span in servicer.spans]
    assert [span.name for span in servicer.spans] == ["KubernetesAPI"] * 2
    assert found[0]["http.target"].string_value == "/api/v1/namespaces/default/configmaps?limit=1"
    assert [attributes["http.status_code"].int_value for attributes in found] == [200, 404]
    span = servicer.spans[0]
    assert span.end_time_unix_nano > span.start_time_unix_nano
    assert [link.trace_id.hex() for link in span.links] == [_TRACE]
    assert span.trace_id.hex() != _TRACE


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
