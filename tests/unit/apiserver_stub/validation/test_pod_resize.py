"""Tests for the validation of resizes of pods."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from apiserver_stub.validation.pod_options import PodOptions
from apiserver_stub.validation.pod_resize import resized, validate_pod_resize
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.validation.pods import container, pod

_OPTIONS = PodOptions(is_pod=True, identity=Identity())
_SMALL = {"requests": {"cpu": "1", "memory": "64Mi"}}


def sized(**fields: Any) -> dict[str, Any]:
    """Return a pod with a sidecar and another init container, all of them with requests."""
    init = [
        container(name="setup", resources=copy.deepcopy(_SMALL)),
        container(name="sidecar", restartPolicy="Always", resources=copy.deepcopy(_SMALL)),
    ]
    return pod(containers=[container(resources=copy.deepcopy(_SMALL))], initContainers=init, **fields)


def errors(
    change: Callable[[dict[str, Any]], object], old: dict[str, Any] | None = None, *, init_containers: bool = False
) -> list[str]:
    """Return field and message of the errors in a resize of *old* whose spec *change* alters."""
    old = old or sized()
    new = copy.deepcopy(old)
    change(new["spec"])
    spec = resized(new, old, pod_level=False)
    causes = validate_pod_resize({**new, "spec": spec}, old, _OPTIONS, init_containers=init_containers, pod_level=False)
    return [f"{cause.field}: {cause.message.partition(': ')[2]}" for cause in causes]


def set_cpu(kind: str = "containers", index: int = 0, cpu: str = "2") -> Callable[[dict[str, Any]], object]:
    def change(spec: dict[str, Any]) -> None:
        spec[kind][index]["resources"]["requests"]["cpu"] = cpu

    return change


def test_cpu_and_memory_of_containers_and_sidecars_can_change() -> None:
    assert errors(set_cpu()) == []
    assert errors(set_cpu("initContainers", 1)) == []


def test_init_containers_can_change_only_with_their_gate() -> None:
    assert errors(set_cpu("initContainers")) == ["spec: resources for non-sidecar init containers are immutable"]
    assert errors(set_cpu("initContainers"), init_containers=True) == []


def test_fields_other_than_resources_are_left_unchanged() -> None:
    def change(spec: dict[str, Any]) -> None:
        spec["containers"][0] |= {"image": "web:2", "command": ["sh"]}
        spec["activeDeadlineSeconds"] = 5

    assert errors(change) == []


def remove(*names: str) -> Callable[[dict[str, Any]], object]:
    def change(spec: dict[str, Any]) -> None:
        for name in names:
            del spec["containers"][0]["resources"]["requests"][name]

    return change


def test_requests_cannot_be_removed() -> None:
    path = "spec.containers[0].resources.requests"

    assert errors(remove("cpu")) == [f"{path}: resource requests cannot be removed"]


def test_qos_class_cannot_change() -> None:
    old = pod(containers=[container(resources=_SMALL)])

    def change(spec: dict[str, Any]) -> None:
        spec["containers"][0]["resources"] = {**_SMALL, "limits": _SMALL["requests"]}

    found = errors(change, old)

    assert [text.rpartition(": ")[2] for text in found] == ["Pod QOS Class may not change as a result of resizing"]


def test_other_resources_cannot_change() -> None:
    def change(spec: dict[str, Any]) -> None:
        spec["containers"][0]["resources"]["requests"]["ephemeral-storage"] = "1Gi"

    assert errors(change) == ["spec: only cpu and memory resources are mutable"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda spec: spec["containers"].append(container(name="b")), "spec.containers: containers may not be added"),
        (lambda spec: spec["containers"][0].update(name="b"), "spec.containers[0].name: containers may not be renamed"),
        (lambda spec: spec["initContainers"].reverse(), "spec.initContainers[0].name: initContainers may not be"),
    ],
)
def test_containers_cannot_be_added_renamed_or_reordered(
    change: Callable[[dict[str, Any]], object], expected: str
) -> None:
    assert any(text.startswith(expected) for text in errors(change))


@pytest.mark.parametrize("resources", [None, _SMALL])
def test_running_container_without_reported_resources_prevents_a_resize(resources: Any) -> None:
    status = {"name": "web", "state": {"running": {}}, **({"resources": resources} if resources else {})}
    old = {**sized(), "status": {"phase": "Running", "containerStatuses": [status]}}

    found = errors(set_cpu(), old)

    assert found == ([] if resources else ["spec: Pod running on node without support for resize"])


def test_static_and_windows_pods_cannot_be_resized() -> None:
    mirror = sized(metadata={"annotations": {"kubernetes.io/config.mirror": "1"}})

    assert errors(set_cpu(), mirror) == ["[]: static pods cannot be resized"]
    assert errors(set_cpu(), sized(os={"name": "windows"})) == ["[]: windows pods cannot be resized"]


def test_claims_of_containers_are_validated_and_cannot_change() -> None:
    def change(spec: dict[str, Any]) -> None:
        spec["containers"][0]["resources"]["claims"] = [{"name": "missing"}]

    assert errors(change) == [
        'spec.containers[0].resources.claims[0]: "missing": '
        "must be one of the names in pod.spec.resourceClaims which is empty",
        "spec: only cpu and memory resources are mutable",
    ]


def test_pod_with_node_allocatable_claims_cannot_be_resized() -> None:
    old = {**sized(), "status": {"nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "c"}]}}

    assert errors(set_cpu(), old) == ["spec: pods with node allocatable resource claims cannot be resized"]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"cpu": "3", "memory": "2Gi"}, []),
        ({"cpu": "2"}, ["spec.resources.limits: pod-level resource limits cannot be removed"]),
        (None, ["spec.resources: pod-level resources cannot be removed"]),
        (
            {"cpu": "2", "memory": "1Gi", "hugepages-2Mi": "2Mi"},
            ["spec: only cpu and memory resources are mutable at pod-level"],
        ),
    ],
)
def test_cpu_and_memory_of_the_pod_can_change(limits: Any, expected: list[str]) -> None:
    old = sized(resources={"limits": {"cpu": "2", "memory": "1Gi"}})
    new = copy.deepcopy(old)
    if limits is None:
        del new["spec"]["resources"]
    else:
        new["spec"]["resources"]["limits"] = limits
    spec = resized(new, old, pod_level=True)

    causes = validate_pod_resize({**new, "spec": spec}, old, _OPTIONS, init_containers=False, pod_level=True)

    found = [f"{cause.field}: {cause.message.partition(': ')[2]}" for cause in causes]
    assert [text for text in found if "pod-level" in text] == expected
