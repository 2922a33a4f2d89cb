"""What every test of the node starts from."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodeagent import hookimpl
from nodeagent.base.aio import TaskOwner
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.node import NodeReport
from nodeagent.node import NodeManager
from nodeagent.testing import FakeApi, FakeClock
from nodeagent.testing.context import make_config, make_context
from nodeagent.testing.plugins import load_plugin

CAPACITY = {"cpu": "2", "memory": "4Gi", "ephemeral-storage": "10Gi"}


class Reporter:
    """A plugin that reports what the test says."""

    def __init__(self) -> None:
        self.report = NodeReport(capacity=CAPACITY)
        self.told: list[tuple[bool, str]] = []

    @hookimpl
    async def nodeagent_report_node(self) -> NodeReport:
        return self.report

    @hookimpl
    async def nodeagent_node_ready_changed(self, ready: bool, message: str) -> None:
        self.told.append((ready, message))


class Node:
    """A node manager with everything around it."""

    def __init__(self, context: AgentContext, problems: list[str]) -> None:
        self.context = context
        self.plugin = Reporter()
        self.problems = problems
        self.manager = NodeManager(context, load_plugin(self.plugin), lambda: problems)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[NodeManager]:
        """Run as the agent does."""
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
    def make(*, standalone: bool = False, settings: dict[str, Any] | None = None, **config: Any) -> Node:
        context = make_context(tmp_path, clock=clock, api=None if standalone else api, config=make_config(**config))
        changes: dict[str, Any] = {"node_ips": ("10.1.2.3",), **(settings or {})}

        context.settings = replace(context.settings, **changes)
        return Node(context, [])

    return make
