"""Tests for the hooks of the plugin ``volumes``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nodeagent.testing import FakeClock, load_plugin
from nodeagent_plugins import volumes

from .host import running


@pytest.mark.parametrize(("own", "expected"), [(True, 1), (False, 0)])
async def test_queries_and_loops_are_those_of_the_own_manager(
    tmp_path: Path, clock: FakeClock, own: bool, expected: int
) -> None:
    async with running(tmp_path, clock) as host:
        context: Any = host.context
        context.volumes = host.manager if own else object()
        manager = load_plugin(volumes, name="volumes")

        found = [
            manager.provide_all(f"nodeagent_provide_{kind}", context=context, plugins=manager)
            for kind in ("local_queries", "background_loops")
        ]

        assert [sum(len(result.value) for result in results) for results in found] == [expected, expected]
