"""Tests for the DefaultTolerationSeconds admission plugin."""

from __future__ import annotations

import pytest

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


NOT_READY, UNREACHABLE = (f"node.kubernetes.io/{name}" for name in ("not-ready", "unreachable"))


@pytest.mark.parametrize(
    ("toleration", "added"),
    [
        ({"key": NOT_READY, "effect": "NoExecute"}, [UNREACHABLE]),
        ({"key": NOT_READY, "effect": "NoSchedule"}, [NOT_READY, UNREACHABLE]),
        ({"key": NOT_READY, "effect": ""}, [UNREACHABLE]),
        ({"key": UNREACHABLE}, [NOT_READY]),
        ({"operator": "Exists"}, []),
        ({"key": "", "operator": "Exists", "effect": "NoExecute"}, []),
        ({"key": "other"}, [NOT_READY, UNREACHABLE]),
    ],
)
async def test_tolerations_of_the_pod_take_precedence(call, toleration, added):
    requested = call({"spec": {"tolerations": [toleration]}})

    await DefaultTolerationSeconds(300, 300, Identity()).admit(requested)

    first, *others = requested.new["spec"]["tolerations"]
    assert first == toleration
    expected = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    assert others == [{"key": key, **expected} for key in added]
