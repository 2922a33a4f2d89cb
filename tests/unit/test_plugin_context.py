"""Tests for the first stage of the plugin context."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest

from nodeagent.base.aio import TaskOwner
from nodeagent.base.release import Release, SelectedRelease
from nodeagent.config.features import build_gates
from nodeagent.contracts.settings import NodeSettings
from nodeagent.plugin_context import new_context
from nodeagent.testing import make_config


@pytest.mark.parametrize("release", [None, SelectedRelease(Release(1, 33))])
def test_context_has_the_given_values_or_those_of_a_standalone_node(clock, release):
    cleanup, settings = AsyncExitStack() if release else None, {"guard": {"a": 1}} if release else None
    context = new_context(
        make_config(),
        build_gates({}),
        NodeSettings(node_name="node-1"),
        clock=clock,
        tasks=TaskOwner("test"),
        cleanup=cleanup,
        plugin_settings=settings,
        release=release,
    )

    assert context.release == (release or SelectedRelease())
    assert context.plugin_settings == (settings or {})
    assert context.cleanup is cleanup or cleanup is None
