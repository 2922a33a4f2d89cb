"""Tests for the quality of service class of pods."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.validation.pod_qos import qos_class

_EQUAL = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ([{}], "BestEffort"),
        ([{"requests": {"cpu": "1"}}], "Burstable"),
        ([{"limits": {"cpu": "1"}}], "Burstable"),
        ([_EQUAL], "Guaranteed"),
        ([_EQUAL, {}], "Burstable"),
        ([{**_EQUAL, "requests": {"cpu": "500m", "memory": "1Gi"}}], "Burstable"),
        ([{"limits": {"cpu": "0"}}], "BestEffort"),
        ([{"requests": {"cpu": "-1"}}], "BestEffort"),
    ],
)
def test_class_by_resources(resources: list[Any], expected: str) -> None:
    assert qos_class({"containers": [{"resources": item} for item in resources]}) == expected


@pytest.mark.parametrize(("resources", "expected"), [(_EQUAL, "Guaranteed"), ({"limits": {"cpu": "1"}}, "Burstable")])
def test_resources_of_the_pod_replace_those_of_its_containers(resources: dict[str, Any], expected: str) -> None:
    assert qos_class({"containers": [{"resources": {}}], "resources": resources}) == expected
