"""Fixtures: an object reader with a fake API server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from nodeagent.contracts.context import AgentContext
from nodeagent.testing import FakeApi, FakeClock, FakePodDirectory, make_config, make_context
from nodeagent_plugins.object_reader.reader import Reader

MakeReader = Callable[..., Reader]


@pytest.fixture
def api(clock: FakeClock) -> FakeApi:
    return FakeApi(clock)


@pytest.fixture
def node() -> dict[str, Any]:
    """Return the node object, for tests to fill."""
    return {}


@pytest.fixture
def pods() -> FakePodDirectory:
    return FakePodDirectory()


@pytest.fixture
async def make_reader(
    tmp_path: Path,
    clock: FakeClock,
    api: FakeApi,
    node: dict[str, Any],
    pods: FakePodDirectory,
) -> AsyncIterator[MakeReader]:
    """Return a function that creates a reader with a strategy."""
    contexts: list[AgentContext] = []

    def make(strategy: str = "Watch", **config: Any) -> Reader:
        fields = make_config(config_map_and_secret_change_detection_strategy=strategy, **config)
        context = make_context(tmp_path, clock=clock, api=api, node=node, config=fields, pods=pods)
        contexts.append(context)
        return Reader(context, api)

    yield make
    for context in contexts:
        await context.tasks.close()
