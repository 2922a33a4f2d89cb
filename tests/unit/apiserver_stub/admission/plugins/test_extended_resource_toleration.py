"""Tests for the ExtendedResourceToleration admission plugin."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.admission.plugins.extended_resource_toleration import ExtendedResourceToleration
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.admission.conftest import make_call


def toleration(key: str, **fields: str) -> dict[str, str]:
    return {"key": key, "operator": "Exists", "effect": "NoSchedule", **fields}


def container(*names: str) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": dict.fromkeys(names, "1")}}


@pytest.mark.parametrize(
    ("spec", "tolerations"),
    [
        ({"containers": [container("cpu", "kubernetes.io/batch")]}, None),
        ({"containers": [{"name": "c"}, {"name": "d", "resources": {"requests": None}}]}, None),
        (
            {"containers": [container("e.com/b")], "initContainers": [container("e.com/a", "e.com/b")]},
            [toleration("e.com/a"), toleration("e.com/b")],
        ),
        ({"containers": [container("e.com/a")], "tolerations": [toleration("e.com/a")]}, [toleration("e.com/a")]),
        (
            {"containers": [container("e.com/a")], "tolerations": [toleration("e.com/a", effect="NoExecute")]},
            [toleration("e.com/a", effect="NoExecute"), toleration("e.com/a")],
        ),
    ],
    ids=["none", "no requests", "several", "present", "another effect"],
)
@pytest.mark.row("admission.ExtendedResourceToleration")
async def test_taints_of_requested_extended_resources_are_tolerated(spec: dict[str, Any], tolerations: Any) -> None:
    await ExtendedResourceToleration(Identity()).admit(make_call({"metadata": {}, "spec": spec}))

    assert spec.get("tolerations") == tolerations
