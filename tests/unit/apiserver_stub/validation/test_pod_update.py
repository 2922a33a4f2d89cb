"""Tests for the validation of updates of pods."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from apiserver_stub.validation.pod_exemptions import options_for_update
from apiserver_stub.validation.pod_options import PodOptions
from apiserver_stub.validation.pod_update import validate_ephemeral_update, validate_pod_update
from nodeagent.base.identity import Identity
from nodeagent.base.release import Release
from tests.unit.apiserver_stub.validation.pods import container, found, pod

_OPTIONS = PodOptions(is_pod=True, identity=Identity())
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def changed(
    old: dict[str, Any], change: Callable[[dict[str, Any]], object], options: PodOptions = _OPTIONS
) -> list[str]:
    """Return the errors in an update of *old* whose spec *change* alters."""
    new = copy.deepcopy(old)
    change(new["spec"])
    return found(validate_pod_update(new, old, options))


def test_image_deadline_and_tolerations_can_change() -> None:
    old = pod(activeDeadlineSeconds=10, tolerations=[{"key": "a"}])

    def change(spec: dict[str, Any]) -> None:
        spec["containers"][0]["image"] = "web:2"
        spec["activeDeadlineSeconds"] = 5
        spec["tolerations"].append({"key": "b"})

    assert changed(old, change) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"nodeName": "node-2"}, ["Forbidden spec"]),
        ({"activeDeadlineSeconds": 20}, ["Invalid spec.activeDeadlineSeconds"]),
        ({"activeDeadlineSeconds": None}, ["Invalid spec.activeDeadlineSeconds"]),
        ({"tolerations": []}, ["Forbidden spec.tolerations"]),
        ({"schedulingGates": [{"name": "b"}]}, ["Forbidden spec.schedulingGates[0].name"]),
    ],
)
def test_other_changes_are_errors(change: dict[str, Any], expected: list[str]) -> None:
    old = pod(activeDeadlineSeconds=10, tolerations=[{"key": "a"}], schedulingGates=[{"name": "a"}])

    def update(spec: dict[str, Any]) -> None:
        spec |= change
        if spec["activeDeadlineSeconds"] is None:
            del spec["activeDeadlineSeconds"]

    assert changed(old, update) == expected


def test_containers_cannot_be_added() -> None:
    assert changed(pod(), lambda spec: spec["containers"].append(pod()["spec"]["containers"][0] | {"name": "b"})) == [
        "Forbidden spec.containers"
    ]


def test_quality_of_service_class_is_immutable() -> None:
    old = pod(containers=[container(resources={"limits": {"cpu": "1", "memory": "1Gi"}})])

    assert changed(old, lambda spec: spec["containers"][0]["resources"].clear()) == [
        "Invalid metadata",
        "Forbidden spec",
    ]


def test_resources_change_where_the_feature_is_enabled() -> None:
    old = pod(containers=[container(resources={"limits": {"cpu": "1"}})])

    def change(spec: dict[str, Any]) -> None:
        spec["containers"][0]["resources"] = {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}

    assert changed(old, change) == ["Forbidden spec"]
    assert changed(old, change, PodOptions(is_pod=True, allow_resize=True, identity=Identity())) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"nodeSelector": {"a": "b", "c": "d"}}, []),
        ({"nodeSelector": {"c": "d"}}, ["Invalid spec.nodeSelector"]),
        ({"schedulingGates": []}, []),
    ],
)
def test_gated_pods_accept_narrower_node_selection(change: dict[str, Any], expected: list[str]) -> None:
    old = pod(schedulingGates=[{"name": "a"}], nodeSelector={"a": "b"})

    assert changed(old, lambda spec: spec.update(change)) == expected


@pytest.mark.parametrize(
    ("terms", "count"),
    [
        ([["a", "b"]], 0),
        ([["b"]], 1),
        ([["a"], ["b"]], 1),
    ],
)
def test_gated_pods_accept_additions_to_node_affinity(terms: list[list[str]], count: int) -> None:
    def affinity(*keys: list[str]) -> dict[str, Any]:
        expressions = [[{"key": key, "operator": "Exists"} for key in term] for term in keys]
        return {
            "nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": item} for item in expressions]}}
        }

    old = pod(schedulingGates=[{"name": "a"}], affinity=affinity(["a"]))

    assert len(changed(old, lambda spec: spec.update(affinity=affinity(*terms)))) == count


@pytest.mark.parametrize(("old", "new", "count"), [({}, {}, 0), ({}, {"matchFields": []}, 0), ({}, None, 1)])
def test_empty_term_of_node_affinity_stays_empty(old: dict[str, Any], new: dict[str, Any] | None, count: int) -> None:
    def affinity(term: dict[str, Any]) -> dict[str, Any]:
        return {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [term]}}}

    term = {"matchExpressions": [{"key": "a", "operator": "Exists"}]} if new is None else new
    stored = pod(schedulingGates=[{"name": "a"}], affinity=affinity(old))

    assert len(changed(stored, lambda spec: spec.update(affinity=affinity(term)))) == count


def test_stored_pods_are_exempt_from_rules_that_they_break() -> None:
    selector = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b c"]}]}
    old = pod(
        metadata={"annotations": {"controller.kubernetes.io/pod-deletion-cost": "x"}},
        hostNetwork=True,
        securityContext={"sysctls": [{"name": "net.a", "value": "1"}]},
        affinity={"podAffinity": {_REQUIRED: [{"topologyKey": "zone", "labelSelector": selector}]}},
        containers=[container(resources={"limits": {"hugepages-2Mi": "3Mi", "cpu": "1"}})],
    )

    options = options_for_update(_OPTIONS, old["metadata"], old["spec"])

    assert found(validate_pod_update(copy.deepcopy(old), old, options)) == []
    assert len(validate_pod_update(copy.deepcopy(old), old, _OPTIONS)) == 6


def test_stored_pod_may_keep_node_label_values_that_are_invalid_since_1_34() -> None:
    expression = {"key": "a", "operator": "In", "values": ["b c"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    old = pod(affinity={"nodeAffinity": {_REQUIRED: terms}})
    today = replace(_OPTIONS, release=Release(1, 34))

    options = options_for_update(today, old["metadata"], old["spec"])

    assert found(validate_pod_update(copy.deepcopy(old), old, options)) == []
    assert len(validate_pod_update(copy.deepcopy(old), old, today)) == 1
    assert validate_pod_update(copy.deepcopy(old), old, _OPTIONS) == []


def test_stored_pod_is_compared_with_the_defaults_of_this_release() -> None:
    new = pod()
    old = copy.deepcopy(new)
    del old["spec"]["enableServiceLinks"]

    def normalize(spec: dict[str, Any]) -> dict[str, Any]:
        return {**spec, "enableServiceLinks": True}

    assert found(validate_pod_update(new, old, _OPTIONS)) == ["Forbidden spec"]
    assert validate_pod_update(new, old, _OPTIONS, normalize) == []


def test_mirror_annotation_is_immutable() -> None:
    old = pod(metadata={"annotations": {"kubernetes.io/config.mirror": "a"}}, nodeName="node-1")
    new = copy.deepcopy(old)
    new["metadata"]["annotations"] = {}

    assert found(validate_pod_update(new, old, _OPTIONS)) == [
        "Forbidden metadata.annotations[kubernetes.io/config.mirror]"
    ]


def test_ephemeral_containers_can_only_be_added() -> None:
    old = pod(ephemeralContainers=[container(name="a"), container(name="b")])
    new = copy.deepcopy(old)
    new["spec"]["ephemeralContainers"][1]["image"] = "other"
    new["spec"]["ephemeralContainers"][0]["name"] = "c"

    assert found(validate_ephemeral_update(new, old, _OPTIONS)) == ["Forbidden spec.ephemeralContainers"] * 2


def test_ephemeral_containers_have_no_resources_or_probes() -> None:
    old = pod()
    debug = container(
        name="debug",
        targetContainerName="other",
        resources={"limits": {"cpu": "1"}},
        ports=[{"containerPort": 80}],
        lifecycle={},
    )
    new = pod(ephemeralContainers=[debug])

    field = "spec.ephemeralContainers[0]"
    assert found(validate_ephemeral_update(new, old, _OPTIONS)) == [
        f"NotFound {field}.targetContainerName",
        f"Forbidden {field}.ports",
        f"Forbidden {field}.resources",
        f"Forbidden {field}.lifecycle",
    ]


def test_static_pods_have_no_ephemeral_containers() -> None:
    old = pod(metadata={"annotations": {"kubernetes.io/config.mirror": "a"}}, nodeName="node-1")

    assert found(validate_ephemeral_update(old, old, _OPTIONS)) == ["Forbidden "]


def test_error_names_the_changed_fields() -> None:
    old = pod(nodeName="node-1", hostname="a")
    new = copy.deepcopy(old)
    new["spec"] |= {"nodeName": "node-2", "subdomain": "b"}

    (cause,) = validate_pod_update(new, old, _OPTIONS)

    assert cause.message.endswith("\nchanged: nodeName, subdomain")
