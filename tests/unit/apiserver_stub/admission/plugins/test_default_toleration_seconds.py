"""Tests for the DefaultTolerationSeconds admission plugin."""

from __future__ import annotations

from apiserver_stub.admission.plugins.default_toleration_seconds import DefaultTolerationSeconds
from apiserver_stub.options import parse
from nodeagent.base.identity import Identity


async def test_default_toleration_seconds_are_configurable(call):
    options = parse(["--default-not-ready-toleration-seconds=7", "--default-unreachable-toleration-seconds=-1"])
    plugin = DefaultTolerationSeconds(
        options.default_not_ready_toleration_seconds, options.default_unreachable_toleration_seconds, Identity()
    )
    requested = call({"spec": {"tolerations": None}})

    await plugin.admit(requested)

    assert [item["tolerationSeconds"] for item in requested.new["spec"]["tolerations"]] == [7, -1]
