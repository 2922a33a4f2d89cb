"""Tests for the containers and resources of a pod that can be resized."""

from __future__ import annotations

import msgspec
import pytest

from nodeagent.base.quantity import Quantity
from nodeagent.model.pod import ContainerKind, ResourceRequirements
from nodeagent.model.resizing import (
    amount,
    needs_restart,
    resizable_containers,
    same_amounts,
    same_resources,
    with_effective_limits,
    with_pod_resources,
    with_resources,
)
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


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (CPU, True),
        (
            ResourceRequirements(requests={"cpu": "1000m", "gpu": "1"}, limits={"cpu": "2", "ephemeral-storage": "1"}),
            True,
        ),
        (ResourceRequirements(requests={"cpu": "1"}, limits={"cpu": "3"}), False),
        (ResourceRequirements(requests={"cpu": "2"}, limits={"cpu": "2"}), False),
        (ResourceRequirements(requests={"cpu": "1", "memory": "1"}, limits={"cpu": "2"}), False),
        (None, False),
    ],
)
def test_only_resources_that_can_be_resized_are_compared(other: ResourceRequirements | None, same: bool) -> None:
    assert same_amounts(CPU, other) is same_amounts(other, CPU) is same


def test_absent_resources_are_zero() -> None:
    assert same_amounts(None, None) and same_amounts(None, ResourceRequirements(limits={"cpu": "0"}))


def test_invalid_quantities_differ() -> None:
    assert not same_resources(ResourceRequirements(limits={"cpu": "x"}), ResourceRequirements(limits={"cpu": "1"}))
    assert same_resources(ResourceRequirements(limits={"cpu": "x"}), ResourceRequirements(limits={"cpu": "x"}))


def test_resources_of_containers_are_replaced_by_name() -> None:
    pod = make_pod(containers=[make_container("a"), make_container("b")], init_containers=[make_container("i")])

    changed = with_resources(pod, {"b": CPU, "i": CPU, "other": CPU})

    assert [container.resources for _, container in changed.containers()] == [CPU, ResourceRequirements(), CPU]
    assert changed.spec.containers[0] is pod.spec.containers[0]
    for same in ({}, {"other": CPU}, {"a": ResourceRequirements()}):
        assert with_resources(pod, same) is pod
    assert with_resources(changed, {"b": ResourceRequirements({"cpu": "2000m"}, {"cpu": "1000m"})}) is changed


def test_resources_of_the_pod_are_replaced_unless_they_are_equal() -> None:
    pod = make_pod(resources={"requests": {"cpu": "1"}, "limits": {"cpu": "2"}})
    other = ResourceRequirements(requests={"cpu": "1"})

    assert with_pod_resources(pod, CPU) is pod
    assert with_pod_resources(pod, other).spec.resources == other
    assert with_pod_resources(pod, None).spec.resources is None
    assert with_pod_resources(make_pod(), CPU).spec.resources == CPU


def test_limits_of_the_pod_apply_to_containers_without_their_own() -> None:
    own, other = make_container("own", resources={"limits": {"cpu": "1"}}), make_container("other")
    pod = make_pod(containers=[own, other])
    assert [with_effective_limits(pod, each) for each in (own, other)] == [own, other]

    pod = make_pod(containers=[own, other], resources={"limits": {"cpu": "2", "memory": "1Gi"}})
    limits = [with_effective_limits(pod, each).resources.limits for each in (own, other)]
    assert limits == [{"cpu": "1", "memory": "1Gi"}, {"cpu": "2", "memory": "1Gi"}]
