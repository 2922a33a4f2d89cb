"""Tests for the defaults of workloads."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.apiserver_stub.api import Api

SETS = "/apis/apps/v1/namespaces/default/statefulsets"


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (None, {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}),
        ({"type": "RollingUpdate"}, {"type": "RollingUpdate"}),
        ({"type": "RollingUpdate", "rollingUpdate": {}}, {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}),
        ({"type": "OnDelete"}, {"type": "OnDelete"}),
    ],
)
async def test_partition_is_zero_if_a_rolling_update_is_configured(strategy: Any, expected: Any) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "serviceName": "s", "template": template}
    spec |= {"updateStrategy": strategy} if strategy else {}

    created = await Api().create(SETS, {"metadata": {"name": "s"}, "spec": spec})

    assert created["spec"]["updateStrategy"] == expected
