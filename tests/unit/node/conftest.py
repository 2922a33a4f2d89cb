"""Shared fixtures of node tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodeagent import hookimpl
from nodeagent.base.aio import TaskOwner
from nodeagent.base.release import SelectedRelease
from nodeagent.config.features import build_gates
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.node import NodeReport
from nodeagent.node import NodeManager
from nodeagent.testing import FakeApi, FakeClock
from nodeagent.testing.context import make_config, make_context
from nodeagent.testing.plugins import load_plugin

CAPACITY = {"cpu": "2", "memory": "4Gi", "ephemeral-storage": "10Gi"}


class Reporter:
    """Plugin that returns a configurable report."""

    def __init__(self) -> None:
        self.report = NodeReport(capacity=CAPACITY)
        self.ready_changes: list[tuple[bool, str]] = []

    @hookimpl
    async def nodeagent_report_node(self) -> NodeReport:
        return self.report

    @hookimpl
    async def nodeagent_node_ready_changed(self, ready: bool, message: str) -> None:
        self.ready_changes.append((ready, message))


class Node:
    """Node manager with its dependencies."""

    def __init__(self, context: AgentContext, problems: list[str]) -> None:
        self.context = context
        self.plugin = Reporter()
        self.problems = problems
        self.manager = NodeManager(context, load_plugin(self.plugin), lambda: problems)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[NodeManager]:
        """Run the loops as the agent does."""
        async with TaskOwner("node") as tasks:
            tasks.start(self.manager.run_status(), "status")
            tasks.start(self.manager.run_registration(), "registration")
            tasks.start(self.manager.run_lease(), "lease")
            yield self.manager


MakeNode = Callable[..., Node]


@pytest.fixture
def api(clock: FakeClock) -> FakeApi:
    return FakeApi(clock)


@pytest.fixture
def make_node(tmp_path: Path, clock: FakeClock, api: FakeApi) -> MakeNode:
    def make(
        *,
        standalone: bool = False,
        settings: dict[str, Any] | None = None,
        release: SelectedRelease | None = None,
        **config: Any,
    ) -> Node:
        selected = release or SelectedRelease()
        context = make_context(
            tmp_path,
            clock=clock,
            api=None if standalone else api,
            config=make_config(**config),
            release=selected,
            gates=build_gates(config.get("feature_gates", {}), selected.release),
        )
        changes: dict[str, Any] = {"node_ips": ("10.1.2.3",), **(settings or {})}

        context.settings = replace(context.settings, **changes)
        return Node(context, [])

    return make
