"""Tests for the strategy of pods: preparation, warnings and grace periods."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from apiserver_stub.admission.plugins.service_account import mount_token
from apiserver_stub.controllers.scheduler import waits
from apiserver_stub.feature_gates import build_gates
from apiserver_stub.kinds.pod_binding import BindingRules, bound
from apiserver_stub.kinds.pods import PodStrategy, resources
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import kind_settings
from nodeagent.base.identity import Identity
from nodeagent.base.release import NEWEST, Release
from tests.unit.apiserver_stub.validation.pods import pod

TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"

STRATEGY = PodStrategy(build_gates({}), Identity())


def test_new_gated_pod_has_the_condition() -> None:
    made = pod(schedulingGates=[{"name": "a"}])

    STRATEGY.prepare_create(made)

    assert made["status"]["phase"] == "Pending"
    assert [(item["type"], item["reason"]) for item in made["status"]["conditions"]] == [
        ("PodScheduled", "SchedulingGated")
    ]


def test_apparmor_annotations_in_the_label_domain_are_dropped_if_disabled() -> None:
    made = pod()
    annotations = {"container.apparmor.security.beta.example.com/c": "unconfined", "a": "b"}
    made["metadata"]["annotations"] = annotations

    PodStrategy(build_gates({"AppArmor": False}), Identity(label_domain="example.com")).prepare_create(made)

    assert made["metadata"]["annotations"] == {"a": "b"}


def test_label_keys_become_expressions_where_enabled() -> None:
    term = {
        "topologyKey": "zone",
        "labelSelector": {},
        "matchLabelKeys": ["app", "none"],
        "mismatchLabelKeys": ["tier"],
    }
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    made = pod(metadata={"labels": {"app": "web", "tier": "front"}}, affinity=affinity)

    PodStrategy(build_gates({"MatchLabelKeysInPodAffinity": True}), Identity()).prepare_create(made)

    prepared = made["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]
    assert prepared["labelSelector"]["matchExpressions"] == [
        {"key": "app", "operator": "In", "values": ["web"]},
        {"key": "tier", "operator": "NotIn", "values": ["front"]},
    ]


def test_status_update_keeps_spec_and_owners() -> None:
    old = pod(metadata={"ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1"}]})
    new = copy.deepcopy(old)
    new["metadata"]["ownerReferences"] = []
    new["metadata"]["labels"] = {"a": "b"}
    new["spec"]["nodeName"] = "node-2"
    new["status"] = {"podIP": "10.0.0.1"}

    STRATEGY.default_status(new)
    STRATEGY.prepare_update(new, old, "status")

    assert new["spec"] == old["spec"]
    assert new["metadata"] == {**old["metadata"], "labels": {"a": "b"}}
    assert new["status"] == {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}


def test_update_of_ephemeral_containers_changes_nothing_else() -> None:
    old = pod()
    new = pod(nodeName="node-2", ephemeralContainers=[{"name": "debug", "image": "debug:1"}])
    new["metadata"]["labels"] = {"a": "b"}

    STRATEGY.prepare_update(new, old, "ephemeralcontainers")

    assert new["metadata"] == old["metadata"]
    added = new["spec"].pop("ephemeralContainers")
    assert new["spec"] == old["spec"]
    assert [item["name"] for item in added] == ["debug"]


def test_pod_stored_by_an_earlier_release_can_be_updated() -> None:
    new = pod(serviceAccountName="default")
    old = copy.deepcopy(new)
    del old["spec"]["enableServiceLinks"], old["spec"]["containers"][0]["resources"]
    old["spec"] |= {"hostIPC": False, "restartPolicy": ""}

    assert STRATEGY.validate_update(new, old, "") == []
    assert [
        cause.field for cause in STRATEGY.validate_update({**new, "spec": {**new["spec"], "hostPID": True}}, old, "")
    ] == ["spec"]


def test_name_that_is_not_a_dns_label_causes_a_warning() -> None:
    made = pod(metadata={"name": "a.b"})

    assert STRATEGY.warnings(made, None) == [
        "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; "
        "a DNS label is recommended: [must not contain dots]"
    ]
    assert STRATEGY.warnings(made, made) == []


def test_binding_replaces_the_condition() -> None:
    old = pod()
    old["status"]["conditions"] = [{"type": "PodScheduled", "status": "False"}, {"type": "Ready", "status": "False"}]

    conditions = bound(old, "node-1", BindingRules())["status"]["conditions"]

    assert [(item["type"], item["status"]) for item in conditions] == [("PodScheduled", "True"), ("Ready", "False")]


@pytest.mark.parametrize(("release", "changed"), [(Release(1, 34), False), (Release(1, 35), True)])
def test_binding_copies_labels_and_clears_the_nomination_since_1_35(release: Release, changed: bool) -> None:
    old = pod()
    old["status"]["nominatedNodeName"] = "node-2"

    found = bound(old, "node-1", BindingRules.of(build_gates({}, release)), {"topology.kubernetes.io/zone": "a"})

    assert ("topology.kubernetes.io/zone" in found["metadata"].get("labels", {})) is changed
    assert ("nominatedNodeName" not in found["status"]) is changed


@pytest.mark.parametrize(
    ("spec", "status", "requested", "expected"),
    [
        ({}, {}, None, 0),
        ({"nodeName": "n"}, {}, None, 30),
        ({"nodeName": "n"}, {}, 5, 5),
        ({"nodeName": "n"}, {}, 0, 0),
        ({"nodeName": "n"}, {"phase": "Succeeded"}, None, 0),
        ({"nodeName": "n", "terminationGracePeriodSeconds": 0}, {}, None, 0),
    ],
)
def test_grace_period_of_a_deletion(spec: Any, status: Any, requested: int | None, expected: int) -> None:
    made = pod(**spec)
    made["status"] = status

    assert PodStrategy(build_gates({}), Identity()).grace_seconds(made, requested) == expected


def test_grace_period_can_only_be_shortened() -> None:
    made = pod(nodeName="n")
    made["metadata"] |= {"deletionTimestamp": "2026-11-21T00:00:00Z", "deletionGracePeriodSeconds": 10}

    assert [
        PodStrategy(build_gates({}), Identity()).grace_seconds(made, requested) for requested in (None, 60, 5, 0)
    ] == [
        10,
        10,
        5,
        0,
    ]


def test_token_is_mounted_once_per_container() -> None:
    spec = pod()["spec"]
    spec["containers"].append({"name": "d", "volumeMounts": [{"name": "mine", "mountPath": TOKEN_PATH}]})

    mount_token(spec, TOKEN_PATH)

    assert spec["containers"][0]["volumeMounts"][0]["mountPath"] == TOKEN_PATH
    assert len(spec["containers"][1]["volumeMounts"]) == 1
    assert spec["volumes"][0]["name"] == spec["containers"][0]["volumeMounts"][0]["name"]


def test_only_unassigned_pods_wait_for_the_scheduler() -> None:
    assert waits(pod())
    assert not waits(pod(nodeName="n"))
    assert not waits(pod(schedulerName="mine"))
    assert not waits(pod(schedulingGates=[{"name": "g"}]))


@pytest.mark.parametrize(("status", "is_kept"), [("True", True), ("False", False), (None, False)])
def test_transition_time_of_a_bound_pod_is_kept(status: str | None, *, is_kept: bool) -> None:
    made, earlier = pod(), "2026-01-01T00:00:00Z"
    made["status"] = {"conditions": [{"type": "PodScheduled", "status": status, "lastTransitionTime": earlier}]}

    (found,) = bound(made, "n", BindingRules(False, False))["status"]["conditions"]

    assert (found["lastTransitionTime"] == earlier, found["status"]) == (is_kept, "True")


@pytest.mark.parametrize("enabled", [True, False])
def test_deletion_cost_is_a_number_while_the_gate_is_enabled(enabled: bool) -> None:
    made = pod(metadata={"annotations": {"controller.kubernetes.io/pod-deletion-cost": "x"}})

    assert bool(PodStrategy(build_gates({"PodDeletionCost": enabled}), Identity()).validate(made)) is enabled


@pytest.mark.parametrize(
    ("gates", "release", "counted"),
    [
        ({}, Release(1, 32), ()),
        ({"InPlacePodVerticalScaling": False}, Release(1, 33), ("spec",)),
        ({"InPlacePodVerticalScaling": True}, Release(1, 29), ("spec",)),
    ],
)
def test_generation_counts_changes_of_the_spec(gates: dict[str, bool], release: Release, counted: Any) -> None:
    assert PodStrategy(build_gates(gates, release), Identity(), release=release).counted == counted


@pytest.mark.parametrize(("minor", "copied"), [(33, True), (34, False)])
def test_profiles_are_copied_to_annotations_before_1_34(minor: int, copied: bool) -> None:
    release = Release(1, minor)
    made = pod(securityContext={"appArmorProfile": {"type": "RuntimeDefault"}})

    PodStrategy(build_gates({}, release), Identity(), release=release).prepare_create(made)

    assert bool(made["metadata"].get("annotations")) is copied


def test_resize_changes_only_resources_and_managed_fields() -> None:
    old = pod(metadata={"name": "p", "uid": "1", "resourceVersion": "1", "labels": {"a": "b"}})
    new = copy.deepcopy(old)
    new["metadata"] |= {"labels": {"c": "d"}, "resourceVersion": "2", "managedFields": [{"manager": "m"}]}
    release = Release(1, 33)

    PodStrategy(build_gates({}, release), Identity(), release=release).prepare_update(new, old, "resize")

    kept = {**old["metadata"], "resourceVersion": "2", "managedFields": [{"manager": "m"}]}
    assert {**new["metadata"], "generation": None} == {**kept, "generation": None}


@pytest.mark.parametrize(("minor", "kept"), [(32, False), (33, True)])
def test_status_update_keeps_observed_generations_since_1_33(minor: int, kept: bool) -> None:
    release = Release(1, minor)
    new, old = pod(), pod()
    old["status"] = {"observedGeneration": 3}
    strategy = PodStrategy(build_gates({}, release), Identity(), release=release)
    new["status"] = {"phase": "Running"}

    strategy.prepare_update(new, old, "status")

    assert (new["status"].get("observedGeneration") == 3) is kept


def test_status_without_values_causes_no_warnings() -> None:
    newest = PodStrategy(build_gates({}, NEWEST), Identity(), release=NEWEST)
    addresses = {"podIPs": [{"ip": "010.0.0.1"}]}

    assert newest.status_warnings({**pod(), "status": None}) == []
    assert len(newest.status_warnings({**pod(), "status": addresses})) == 1


@pytest.mark.parametrize(
    ("gates", "conditions", "text"),
    [
        ([], [], "<none>"),
        (["a"], [], "0/1"),
        (["a", "b"], [("a", "True"), ("b", "False"), ("c", "True")], "1/2"),
        (["a", "b"], [("a", "True"), ("b", "True")], "2/2"),
    ],
)
def test_readiness_gates_that_are_met_are_counted(gates: list[str], conditions: list[Any], text: str) -> None:
    found = next(item for item in resources(kind_settings(parse([]))) if item.kind == "Pod")
    made = pod(readinessGates=[{"conditionType": name} for name in gates])
    made["status"] = {"conditions": [{"type": name, "status": status} for name, status in conditions]}

    assert next(column.cell(made) for column in found.columns if column.name == "Readiness Gates") == text
