"""Tests for spans of the agent and the configured sampling rate."""

from __future__ import annotations

import ssl
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.collector import Collector, collecting
from tests.integration.containerd import Containerd
from tests.integration.programs import NodeAgent, simple_pod, wait_until

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
OPEN = {
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
}


@pytest.fixture
def agent(containerd: Containerd, tmp_path: Path) -> Iterator[NodeAgent]:
    started = NodeAgent(tmp_path, containerd.endpoint)
    yield started
    started.kill()
    containerd.remove_pods()


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as found:
        yield found


def request_path(agent: NodeAgent, path: str, *, sampled: bool) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-0{int(sampled)}"}
    request = urllib.request.Request(f"https://127.0.0.1:{agent.port}{path}", headers=headers)
    with urllib.request.urlopen(request, context=context, timeout=10) as response:
        response.read()


def attributes(span: Any) -> dict[str, str]:
    return {item.key: item.value.string_value for item in span.attributes}


@pytest.mark.row("config.tracing", "type.TracingConfiguration.endpoint")
def test_pod_start_is_one_trace_with_its_runtime_calls(agent: NodeAgent, collector: Collector) -> None:
    agent.write_pod(simple_pod("traced", hostNetwork=True))
    agent.start(tracing={"endpoint": collector.endpoint, "samplingRatePerMillion": 1_000_000}, **OPEN)
    wait_until(lambda: "Started container main" in agent.log.read_text(), "the pod runs")
    assert agent.stop() == 0  # This exports the remaining spans.

    (starting,) = collector.named("runtime.v1.RuntimeService/StartContainer")
    trace = [span for span in collector.spans if span.trace_id == starting.trace_id]
    (step,) = [span for span in trace if span.name == "syncPod"]
    assert starting.parent_span_id == step.span_id
    assert attributes(starting)["rpc.method"] == "StartContainer"
    assert attributes(step)["k8s.pod.name"] == "traced-node-1"
    assert attributes(step)["k8s.pod.update_type"] == "create"
    assert {"runtime.v1.RuntimeService/RunPodSandbox", "runtime.v1.RuntimeService/CreateContainer"} <= {
        span.name for span in trace
    }
    assert "kubelet" in collector.services


@pytest.mark.row("type.TracingConfiguration.samplingRatePerMillion")
def test_without_a_rate_only_sampled_requests_are_traced(agent: NodeAgent, collector: Collector) -> None:
    agent.write_pod(simple_pod("untraced", hostNetwork=True))
    agent.start(tracing={"endpoint": collector.endpoint}, **OPEN)
    wait_until(lambda: "Started container main" in agent.log.read_text(), "the pod runs")
    request_path(agent, "/pods", sampled=False)
    request_path(agent, "/runningpods/", sampled=True)
    assert agent.stop() == 0

    (served,) = collector.named("/runningpods/")
    assert (served.trace_id.hex(), served.parent_span_id.hex()) == (TRACE, PARENT)
    assert {span.trace_id.hex() for span in collector.spans} == {TRACE}
    listing = collector.named("runtime.v1.RuntimeService/ListPodSandbox")
    assert [span.parent_span_id for span in listing] == [served.span_id]


def test_missing_collector_loses_only_spans(agent: NodeAgent) -> None:
    agent.write_pod(simple_pod("alone", hostNetwork=True))
    agent.start(tracing={"endpoint": "127.0.0.1:1", "samplingRatePerMillion": 1_000_000})
    wait_until(lambda: "Started container main" in agent.log.read_text(), "the pod runs")
    assert agent.stop() == 0
