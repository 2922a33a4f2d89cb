"""Tests for the containers and resources of a pod that can be resized."""

from __future__ import annotations

import msgspec
import pytest

from nodeagent.base.quantity import Quantity
from nodeagent.model.pod import ContainerKind, ResourceRequirements
from nodeagent.model.resizing import amount, needs_restart, resizable_containers, same_resources
from nodeagent.testing import make_container, make_pod


@pytest.mark.parametrize(("init", "names"), [(False, ["proxy", "main"]), (True, ["setup", "proxy", "main"])])
def test_containers_and_sidecars_can_be_resized(init: bool, names: list[str]) -> None:
    setup, proxy = make_container("setup"), make_container("proxy", restart_policy="Always")
    pod = make_pod("web", init_containers=[setup, proxy], containers=[make_container("main")])

    found = list(resizable_containers(pod, init=init))

    assert sorted(container.name for _, container in found) == sorted(names)
    assert (ContainerKind.REGULAR, pod.spec.containers[0]) in found


CPU = ResourceRequirements(requests={"cpu": "1"}, limits={"cpu": "2"})


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (CPU, True),
        (ResourceRequirements(requests={"cpu": "1000m"}, limits={"cpu": "2"}), True),
        (ResourceRequirements(requests={"cpu": "2"}, limits={"cpu": "2"}), False),
        (ResourceRequirements(requests={"cpu": "1"}), False),
        (msgspec.structs.replace(CPU, claims=[]), True),
        (msgspec.structs.replace(CPU, claims=[{"name": "gpu"}]), False),
        (None, False),
    ],
)
def test_resources_are_compared_by_quantity(other: ResourceRequirements | None, same: bool) -> None:
    assert same_resources(CPU, other) == same_resources(other, CPU) == same
    assert same_resources(None, None)


def test_amount_of_an_unset_resource_is_zero() -> None:
    assert amount({"cpu": "1"}, "cpu") == Quantity(1)
    assert amount({"cpu": "1"}, "memory") == amount(None, "cpu") == amount({}, "cpu") == Quantity()


@pytest.mark.parametrize(
    ("policies", "restart"),
    [
        (None, False),
        ([{"resourceName": "memory", "restartPolicy": "RestartContainer"}], False),
        ([{"resourceName": "cpu", "restartPolicy": "NotRequired"}], False),
        (
            [
                {"resourceName": "memory", "restartPolicy": "NotRequired"},
                {"resourceName": "cpu", "restartPolicy": "RestartContainer"},
            ],
            True,
        ),
    ],
)
def test_restart_depends_on_the_policy_of_the_resource(policies: list[dict[str, str]] | None, restart: bool) -> None:
    assert needs_restart(make_container("main", resize_policy=policies), "cpu") is restart
