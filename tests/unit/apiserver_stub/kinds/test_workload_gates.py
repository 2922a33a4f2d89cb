"""Tests for the feature gates of workload kinds: fields of disabled features are dropped."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.kinds.registry import Resource
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry

TEMPLATE = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
}


def resource(group: str, plural: str, *arguments: str) -> Resource:
    found = build_registry(parse(list(arguments))).find(group, "v1", plural)
    assert found is not None
    return found


def created(found: Resource, spec: Object) -> Object:
    """Return the spec of a new object with defaults, as it is validated."""
    obj: Object = copy.deepcopy({"metadata": {"name": "a", "uid": "u"}, "spec": {"template": TEMPLATE, **spec}})
    found.strategy.default(obj)
    found.strategy.prepare_create(obj)
    result: Object = obj["spec"]
    return result


def gate(name: str, *fields: Any) -> Any:
    marks = [pytest.mark.row(f"gate.{name}")] if fields[0] == "1.29" else []
    return pytest.param(name, *fields, marks=marks, id=name)


POLICY = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}]}


@pytest.mark.parametrize(
    ("name", "release", "group", "plural", "field", "value"),
    [
        gate("JobPodFailurePolicy", "1.29", "batch", "jobs", "podFailurePolicy", POLICY),
        gate("JobBackoffLimitPerIndex", "1.29", "batch", "jobs", "backoffLimitPerIndex", 1),
        gate("JobPodReplacementPolicy", "1.29", "batch", "jobs", "podReplacementPolicy", "Failed"),
        gate("JobSuccessPolicy", "1.31", "batch", "jobs", "successPolicy", {"rules": [{"succeededCount": 1}]}),
        gate("JobManagedBy", "1.32", "batch", "jobs", "managedBy", "example.com/x"),
        gate("StatefulSetStartOrdinal", "1.29", "apps", "statefulsets", "ordinals", {"start": 1}),
        gate(
            "StatefulSetAutoDeletePVC",
            "1.29",
            "apps",
            "statefulsets",
            "persistentVolumeClaimRetentionPolicy",
            {"whenDeleted": "Delete", "whenScaled": "Retain"},
        ),
    ],
)
def test_field_needs_its_gate(name: str, release: str, group: str, plural: str, field: str, value: Any) -> None:
    version = f"--compatibility-version={release}"
    enabled = created(resource(group, plural, version), {field: value})
    disabled = created(resource(group, plural, version, f"--feature-gates={name}=false"), {field: value})

    assert enabled[field] == value
    assert field not in disabled


@pytest.mark.row("gate.MaxUnavailableStatefulSet")
def test_max_unavailable_of_stateful_sets_needs_its_gate() -> None:
    strategy = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}}
    enabled = created(resource("apps", "statefulsets", "--feature-gates=MaxUnavailableStatefulSet=true"), strategy)
    disabled = created(resource("apps", "statefulsets"), strategy)

    assert enabled["updateStrategy"]["rollingUpdate"]["maxUnavailable"] == 2
    assert "maxUnavailable" not in disabled["updateStrategy"]["rollingUpdate"]


@pytest.mark.parametrize("stored", [True, False])
def test_disabled_field_of_a_stored_stateful_set_is_kept(stored: bool) -> None:
    found = resource("apps", "statefulsets", "--feature-gates=MaxUnavailableStatefulSet=false")
    rolling = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}}
    new, old = ({"metadata": {"name": "a"}, "spec": {"template": TEMPLATE, **spec}} for spec in (rolling, {}))
    if stored:
        old = copy.deepcopy(new)

    found.strategy.prepare_update(new, old, "")

    assert ("maxUnavailable" in new["spec"]["updateStrategy"]["rollingUpdate"]) is stored


@pytest.mark.row("gate.ElasticIndexedJob")
@pytest.mark.parametrize("elastic", [True, False])
def test_completions_of_indexed_jobs_change_only_with_the_gate(elastic: bool) -> None:
    found = resource("batch", "jobs", f"--feature-gates=ElasticIndexedJob={'true' if elastic else 'false'}")

    def job(size: int) -> Object:
        spec = {"completions": size, "parallelism": size, "completionMode": "Indexed"}
        obj = copy.deepcopy({"metadata": {"name": "a", "uid": "u"}, "spec": {"template": TEMPLATE, **spec}})
        found.strategy.default(obj)
        found.strategy.prepare_create(obj)
        return obj

    errors = found.strategy.validate_update(job(3), job(2), "")

    assert [error.field for error in errors] == ([] if elastic else ["spec.completions"])


@pytest.mark.covers("apiserver_stub.kinds")
def test_disabled_field_is_dropped_from_templates_unless_it_is_stored() -> None:
    kinds = [("", "replicationcontrollers"), *(("apps", name) for name in ("replicasets", "deployments", "daemonsets"))]
    for group, plural in [*kinds, ("apps", "statefulsets")]:
        strategy = resource(group, plural).strategy
        without: Object = {"metadata": {"name": "a", "uid": "u"}, "spec": {"template": copy.deepcopy(TEMPLATE)}}
        strategy.default(without)
        having = copy.deepcopy(without)
        having["spec"]["template"]["spec"]["hostUsers"] = False

        for old, kept in ((without, False), (having, True)):
            new = copy.deepcopy(having)
            strategy.prepare_update(new, old, "")
            assert ("hostUsers" in new["spec"]["template"]["spec"]) is kept, plural
