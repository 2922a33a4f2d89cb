"""Fixtures for tests of the eviction manager."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent.testing import FakeClock
from tests.unit.plugins.eviction.node import MakeNode, Node


@pytest.fixture
def make_node(tmp_path: Path, clock: FakeClock) -> MakeNode:
    return lambda **config: Node(tmp_path, clock, **config)
