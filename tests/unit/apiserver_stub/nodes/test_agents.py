"""Tests for connections to node agents."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.egress.dialing import DirectDialer
from apiserver_stub.nodes.agents import NodeAgents, Unreachable
from apiserver_stub.nodes.client_certificate import generate_client_certificate
from apiserver_stub.nodes.endpoint import Endpoint
from apiserver_stub.options import parse
from apiserver_stub.server.outgoing import node_agent_settings


class Silent(DirectDialer):
    """Dialer that never connects."""

    async def connect(
        self, factory: Callable[[], Any], host: str, port: int, tls: ssl.SSLContext | None, server_name: str = ""
    ) -> Any:
        await asyncio.Event().wait()


@pytest.mark.row("opt.nodeagent-timeout")
@pytest.mark.parametrize(("option", "seconds"), [("2h", 7200.0), ("0s", None)])
async def test_connection_attempt_times_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, seconds: float | None
) -> None:
    settings = node_agent_settings(parse([f"--nodeagent-timeout={option}", f"--data-dir={tmp_path}"]))
    generate_client_certificate(settings.own_authorities)
    agents = NodeAgents(settings, None, Silent())  # type: ignore[arg-type]
    endpoint = Endpoint("192.0.2.1", 10250, agents.plain_tls)
    allowed: list[float | None] = []
    real = asyncio.timeout

    def passed_at_once(delay: float | None) -> asyncio.Timeout:
        allowed.append(delay)
        return real(0)

    with monkeypatch.context() as patched, pytest.raises(Unreachable):
        patched.setattr(asyncio, "timeout", passed_at_once)
        await agents.connect(asyncio.Protocol, endpoint)

    assert allowed == [seconds]


class OneNode:
    """Store with one node whose agent listens at *port*."""

    def __init__(self, port: int) -> None:
        status = {"daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}
        addresses = [{"type": "InternalIP", "address": "192.0.2.1"}]
        node = {"metadata": {"name": "a"}, "status": {**status, "addresses": addresses}}
        self.record = SimpleNamespace(data=json.dumps(node).encode())

    def collection(self, _name: str) -> dict[str, Any]:
        return {"a": self.record}


@pytest.mark.parametrize("port", [-1, 65536, 1 << 31])
async def test_invalid_port_in_the_status_of_a_node_is_unreachable(tmp_path: Path, port: int) -> None:
    settings = node_agent_settings(parse([f"--data-dir={tmp_path}"]))
    generate_client_certificate(settings.own_authorities)
    agents = NodeAgents(settings, OneNode(port))  # type: ignore[arg-type]

    with pytest.raises(Unreachable, match=f"dial tcp: address {port}: invalid port") as caught:
        await agents.endpoint_of("a")

    assert caught.value.code == 503
