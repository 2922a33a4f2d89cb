"""Tests for the findings of plugins with the capability ``node_checks``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from nodeagent.base.plugin_rpc import RpcError
from nodeagent.base.pluginproto import plugin_v1_pb2 as api
from nodeagent.contracts.checks import Severity
from nodeagent_plugins.external_plugins import node_checks
from nodeagent_plugins.external_plugins.node_checks import check_node
from tests.unit.plugins.external_plugins.conftest import FakePlugin


@pytest.fixture
def connected(plugin: FakePlugin, monkeypatch: pytest.MonkeyPatch) -> FakePlugin:
    @asynccontextmanager
    async def connect(_socket: str, _seconds: float) -> AsyncIterator[FakePlugin]:
        yield plugin

    monkeypatch.setattr(node_checks, "connect", connect)
    return plugin


async def test_findings_have_the_severity_of_the_plugin(connected: FakePlugin) -> None:
    findings = [
        api.Finding(severity=api.PROBLEM, text="no license", remedy="buy one"),
        api.Finding(severity=api.WARNING, text="hot"),
    ]
    connected.responses["CheckNode"] = api.CheckNodeResponse(findings=findings)

    found = [(each.severity, each.text, each.remedy) for each in await check_node("shelf", "/run/s")]

    assert found == [(Severity.PROBLEM, "no license", "buy one"), (Severity.WARNING, "hot", "")]


async def test_unknown_severity_is_a_problem_of_the_plugin(connected: FakePlugin) -> None:
    connected.responses["CheckNode"] = api.CheckNodeResponse(findings=[api.Finding(text="hot")])

    (found,) = await check_node("shelf", "/run/s")

    assert (found.severity, found.text) == (Severity.PROBLEM, "plugin shelf returned the unknown severity 0: hot")


async def test_plugin_that_does_not_respond_is_a_problem(connected: FakePlugin) -> None:
    connected.responses["CheckNode"] = RpcError("Unavailable", "connection refused")

    (found,) = await check_node("shelf", "/run/s")

    assert found.severity is Severity.PROBLEM
    assert found.text == "plugin shelf does not respond on /run/s: Unavailable: connection refused"
