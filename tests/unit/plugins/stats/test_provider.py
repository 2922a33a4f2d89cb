"""The bundled provider measures the node and the pods that run."""

from __future__ import annotations

import pytest
from nodeagent_plugins import stats as stats_plugin

from nodeagent.testing import FakeRuntime, load_plugin, make_context, make_pod
from nodeagent.testing.contracts import StatsProviderContract


class TestMeasuredStats(StatsProviderContract):
    @pytest.fixture
    async def runtime(self, clock):
        return FakeRuntime(clock)

    @pytest.fixture
    def running(self, runtime):
        web = make_pod("web", containers=["main", "side"])
        runtime.start("main", web)
        runtime.start("side", web)
        runtime.exit(runtime.start("done", make_pod("done")))
        return [web.uid]

    @pytest.fixture
    async def stats(self, tmp_path, clock, runtime):
        context = make_context(tmp_path, clock=clock, runtime=runtime)
        return load_plugin(stats_plugin).provide("nodeagent_provide_stats", context=context)
