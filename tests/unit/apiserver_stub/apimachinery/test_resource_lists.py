"""Tests for resource lists and the total resources of pods."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.apimachinery import resource_lists


def container(restart: str | None = None, **requests: str) -> dict[str, Any]:
    found: dict[str, Any] = {"resources": {"requests": requests}}
    return found if restart is None else {**found, "restartPolicy": restart}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, {}),
        ({"containers": [{}, container(cpu="1"), container(cpu="2", memory="3")]}, {"cpu": "3", "memory": "3"}),
        ({"containers": [container(cpu="1")], "initContainers": [container(cpu="2")]}, {"cpu": "2"}),
        ({"containers": [container(cpu="3")], "initContainers": [container(cpu="2", memory="1")]},
         {"cpu": "3", "memory": "1"}),
        ({"containers": [container(cpu="1")], "initContainers": [container("Always", cpu="2")]}, {"cpu": "3"}),
        ({"containers": [container(cpu="1")], "initContainers": [container("Never", cpu="2")]}, {"cpu": "2"}),
        (
            {
                "containers": [container(cpu="1")],
                "initContainers": [container("Always", cpu="2"), container(cpu="5"), container("Always", cpu="1")],
            },
            {"cpu": "7"},
        ),
        ({"containers": [container(cpu="x", memory="1")]}, {"memory": "1"}),
    ],
)  # fmt: skip
def test_init_containers_run_before_the_others(spec: dict[str, Any], expected: dict[str, str]) -> None:
    assert resource_lists.write(resource_lists.of_containers(spec, "requests")) == expected
    assert resource_lists.of_containers(spec, "limits") == {}


def test_resources_of_the_pod_replace_those_of_its_containers() -> None:
    spec = {
        "containers": [container(cpu="1", memory="1")],
        "resources": {"requests": {"cpu": "5", "hugepages-2Mi": "2Mi", "example.com/gpu": "1"}},
    }

    found = resource_lists.write(resource_lists.of_pod(spec, "requests"))

    assert found == {"cpu": "5", "memory": "1", "hugepages-2Mi": "2Mi"}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        (None, False),
        ({"requests": {"cpu": "1"}}, True),
        ({"limits": {"hugepages-1Gi": "1Gi"}}, True),
        ({"requests": {"example.com/gpu": "1"}}, False),
        ({"requests": None}, False),
    ],
)
def test_pod_may_have_its_own_resources(resources: Any, *, expected: bool) -> None:
    assert resource_lists.has_pod_level({"resources": resources}) is expected


@pytest.mark.parametrize(("names", "text"), [(None, "a=1,b=2"), (["b", "c"], "b=2"), ([], "")])
def test_amounts_are_shown_by_name(names: list[str] | None, text: str) -> None:
    assert resource_lists.shown(resource_lists.read({"b": "2", "a": "1"}), names) == text


def test_greatest_amounts_remain() -> None:
    total = resource_lists.read({"a": "1", "b": "2"})

    resource_lists.raise_to(total, resource_lists.read({"a": "2", "b": "1", "c": "1"}))

    assert resource_lists.write(total) == {"a": "2", "b": "2", "c": "1"}
