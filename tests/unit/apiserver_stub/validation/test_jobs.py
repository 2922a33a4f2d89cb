"""Tests for the validation of Jobs and of the job templates of CronJobs."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.validation.jobs import (
    JobLabels,
    validate_job,
    validate_job_spec,
    validate_job_template,
    validate_job_update,
)
from apiserver_stub.validation.pod_options import PodOptions
from nodeagent.base.identity import Identity

Spec = dict[str, Any]
OPTIONS, LABELS = PodOptions(Identity()), JobLabels.of(Identity())
CONTAINER = {"name": "c", "image": "i", "imagePullPolicy": "Always", "terminationMessagePolicy": "File"}
POD = {
    "restartPolicy": "Never",
    "dnsPolicy": "ClusterFirst",
    "terminationGracePeriodSeconds": 30,
    "containers": [CONTAINER],
}
TEMPLATE: Spec = {"metadata": {"labels": {"a": "b"}}, "spec": POD}
INDEXED = {"completionMode": "Indexed", "completions": 5}
MANY = {"completionMode": "Indexed", "completions": 100_001, "backoffLimitPerIndex": 1}


def template(**pod: Any) -> Spec:
    return {"template": {**TEMPLATE, "spec": {**POD, **pod}}}


def short(causes: list[Cause], prefix: str = "spec.") -> list[str]:
    return [f"{cause.reason.removeprefix('FieldValue')} {cause.field.removeprefix(prefix)}" for cause in causes]


def of_spec(spec: Spec) -> list[str]:
    return short(validate_job_spec({"template": TEMPLATE, **spec}, "spec", OPTIONS))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        ({"parallelism": 0, "completions": 0, "backoffLimit": 0}, []),
        ({"parallelism": -1}, ["Invalid parallelism"]),
        ({**INDEXED, "backoffLimitPerIndex": 0, "maxFailedIndexes": 0}, []),
        ({**INDEXED, "maxFailedIndexes": 1}, ["Required backoffLimitPerIndex"]),
        ({"completionMode": "Other"}, ["NotSupported completionMode"]),
        ({"completionMode": "NonIndexed", "backoffLimitPerIndex": 1}, ["Invalid backoffLimitPerIndex"]),
        (
            {"backoffLimitPerIndex": 1, "maxFailedIndexes": 1},
            ["Invalid backoffLimitPerIndex", "Invalid maxFailedIndexes"],
        ),
        ({"completionMode": "Indexed"}, ["Required completions"]),
        ({**INDEXED, "parallelism": 100_000}, []),
        ({**INDEXED, "parallelism": 100_001}, ["Invalid parallelism"]),
        ({**INDEXED, "backoffLimitPerIndex": 1, "maxFailedIndexes": 5}, []),
        ({**INDEXED, "backoffLimitPerIndex": 1, "maxFailedIndexes": 6}, ["Invalid maxFailedIndexes"]),
        ({**MANY, "completions": 100_000}, []),
        ({**MANY}, ["Required maxFailedIndexes"]),
        ({**MANY, "backoffLimitPerIndex": None}, []),
        ({**MANY, "maxFailedIndexes": 10_000, "parallelism": 10_000}, []),
        (
            {**MANY, "maxFailedIndexes": 10_001, "parallelism": 10_001},
            ["Invalid parallelism", "Invalid maxFailedIndexes"],
        ),
        (
            {**MANY, "completions": 100_002, "maxFailedIndexes": 100_001},
            ["Invalid maxFailedIndexes", "Invalid maxFailedIndexes"],
        ),
        (
            {"completionMode": "Indexed", "completions": 200_000, "backoffLimitPerIndex": 1, "maxFailedIndexes": 10**5},
            ["Invalid maxFailedIndexes"],
        ),
        ({"podReplacementPolicy": "Failed"}, []),
        ({"podReplacementPolicy": "TerminatingOrFailed"}, []),
        ({"podReplacementPolicy": "Other"}, ["NotSupported podReplacementPolicy"]),
        (
            {"podFailurePolicy": {"rules": []}, "podReplacementPolicy": "TerminatingOrFailed"},
            ["NotSupported podReplacementPolicy"],
        ),
        ({"podFailurePolicy": {"rules": []}, "podReplacementPolicy": "Failed"}, []),
        ({"managedBy": "a.example/" + "m" * 53}, []),
        ({"managedBy": "a.example/" + "m" * 54}, ["TooLong managedBy"]),
        ({"managedBy": "m"}, ["Invalid managedBy"]),
        (template(restartPolicy="OnFailure"), []),
        (template(restartPolicy=""), ["Required template.spec.restartPolicy"] * 2),
        (template(restartPolicy="Always"), ["Required template.spec.restartPolicy"]),
        (template(restartPolicy="Other"), ["NotSupported template.spec.restartPolicy"] * 2),
        (
            {**template(restartPolicy="OnFailure"), "podFailurePolicy": {}},
            ["Invalid template.spec.restartPolicy"],
        ),
    ],
)
def test_specification_is_validated(spec: Spec, expected: list[str]) -> None:
    assert of_spec(spec) == expected


RULES = "successPolicy.rules"


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([], [f"Required {RULES}"]),
        ([{"succeededCount": 1}] * 20, []),
        ([{"succeededCount": 1}] * 21, [f"TooMany {RULES}"]),
        ([{}], [f"Required {RULES}[0]"]),
        ([{"succeededIndexes": "0,2-4"}], []),
        ([{"succeededIndexes": "0,2-5"}], [f"Invalid {RULES}[0].succeededIndexes"]),
        ([{"succeededCount": 5}], []),
        ([{"succeededCount": 6}], [f"Invalid {RULES}[0].succeededCount"]),
        ([{"succeededCount": -1}], [f"Invalid {RULES}[0].succeededCount"]),
        ([{"succeededCount": 4, "succeededIndexes": "0,2-4"}], []),
        ([{"succeededCount": 5, "succeededIndexes": "0,2-4"}], [f"Invalid {RULES}[0].succeededCount"]),
        (
            [{"succeededCount": 1, "succeededIndexes": "x"}],
            [f"Invalid {RULES}[0].succeededIndexes", f"Invalid {RULES}[0].succeededCount"],
        ),
    ],
)
def test_rules_of_success_are_validated(rules: list[Any], expected: list[str]) -> None:
    assert of_spec({**INDEXED, "successPolicy": {"rules": rules}}) == expected
    assert of_spec({"successPolicy": {"rules": rules}}) == ["Invalid successPolicy"]


CODES = {"operator": "In", "values": [1, 2]}
READY = {"type": "Ready", "status": "True"}
FIRST = "podFailurePolicy.rules[0]"


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"onExitCodes": CODES}, []),
        ({"onPodConditions": [READY]}, []),
        ({}, [f"Invalid {FIRST}"]),
        ({"onPodConditions": []}, [f"Invalid {FIRST}"]),
        ({"onExitCodes": CODES, "onPodConditions": [READY]}, [f"Invalid {FIRST}"]),
        ({"onExitCodes": CODES, "action": ""}, [f"Required {FIRST}.action"]),
        ({"onExitCodes": CODES, "action": "Stop"}, [f"NotSupported {FIRST}.action"]),
        ({"onExitCodes": CODES, "action": "FailIndex"}, [f"Invalid {FIRST}.action"]),
        ({"onPodConditions": [READY] * 20}, []),
        ({"onPodConditions": [READY] * 21}, [f"TooMany {FIRST}.onPodConditions"]),
        ({"onPodConditions": [{"type": "Ready"}]}, [f"Required {FIRST}.onPodConditions[0].status"]),
        ({"onPodConditions": [{**READY, "status": "x"}]}, [f"NotSupported {FIRST}.onPodConditions[0].status"]),
        ({"onPodConditions": [{**READY, "type": "a b"}]}, [f"Invalid {FIRST}.onPodConditions[0].type"]),
        ({"onExitCodes": {"values": [1]}}, [f"Required {FIRST}.onExitCodes.operator"]),
        ({"onExitCodes": {**CODES, "operator": "Eq"}}, [f"NotSupported {FIRST}.onExitCodes.operator"]),
        ({"onExitCodes": {**CODES, "containerName": "c"}}, []),
        ({"onExitCodes": {**CODES, "containerName": "i"}}, []),
        ({"onExitCodes": {**CODES, "containerName": "x"}}, [f"Invalid {FIRST}.onExitCodes.containerName"]),
        ({"onExitCodes": {**CODES, "values": []}}, [f"Invalid {FIRST}.onExitCodes.values"]),
        ({"onExitCodes": {**CODES, "values": [*range(1, 256)]}}, []),
        ({"onExitCodes": {**CODES, "values": [*range(1, 257)]}}, [f"TooMany {FIRST}.onExitCodes.values"]),
        ({"onExitCodes": {**CODES, "values": [0]}}, [f"Invalid {FIRST}.onExitCodes.values[0]"]),
        ({"onExitCodes": {"operator": "NotIn", "values": [0]}}, []),
        ({"onExitCodes": {**CODES, "values": [1, 1]}}, [f"Duplicate {FIRST}.onExitCodes.values[1]"]),
        ({"onExitCodes": {**CODES, "values": [2, 1]}}, [f"Invalid {FIRST}.onExitCodes.values"]),
    ],
)
def test_rules_of_failure_are_validated(rule: Any, expected: list[str]) -> None:
    spec = {**template(initContainers=[{**CONTAINER, "name": "i"}])}

    assert of_spec({**spec, "podFailurePolicy": {"rules": [{"action": "Ignore", **rule}]}}) == expected


@pytest.mark.parametrize(("count", "expected"), [(20, []), (21, ["TooMany podFailurePolicy.rules"])])
def test_number_of_rules_of_failure_is_limited(count: int, expected: list[str]) -> None:
    rules = [{"action": "FailIndex", "onExitCodes": CODES}] * count

    assert of_spec({**INDEXED, "backoffLimitPerIndex": 1, "podFailurePolicy": {"rules": rules}}) == expected


def test_error_of_a_rule_without_requirements_names_the_alternatives() -> None:
    both = {"action": "Ignore", "onExitCodes": CODES, "onPodConditions": [READY]}
    for rule, text in (
        ({"action": "Ignore"}, "specifying one of OnExitCodes and OnPodConditions is required"),
        (both, "specifying both OnExitCodes and OnPodConditions is not supported"),
    ):
        spec = {"template": TEMPLATE, "podFailurePolicy": {"rules": [rule]}}
        (cause,) = validate_job_spec(spec, "spec", OPTIONS)
        assert cause.message.endswith(text)


# --- names, selectors and labels

GENERATED = {LABELS.uid: "u", LABELS.name: "j", "controller-uid": "u", "job-name": "j"}


def job(spec: Spec | None = None, labels: Spec | None = None, selector: Any = "generated", name: str = "j") -> Spec:
    found = {**GENERATED, "job-name": name, LABELS.name: name} if labels is None else labels
    chosen = {"matchLabels": {LABELS.uid: "u"}} if selector == "generated" else selector
    made = {"template": {**TEMPLATE, "metadata": {"labels": found}}, **(spec or {})}
    if chosen is not None:
        made.setdefault("selector", chosen)
    return {"metadata": {"name": name, "uid": "u"}, "spec": made}


def without(*names: str) -> Spec:
    return {name: value for name, value in GENERATED.items() if name not in names}


LABEL = "template.metadata.labels"


@pytest.mark.parametrize(
    ("made", "prefixed", "expected"),
    [
        (job(), True, []),
        (job(labels=without("job-name")), True, [f"Required {LABEL}[job-name]"]),
        (job(labels={**GENERATED, "job-name": "x"}), True, [f"Invalid {LABEL}[job-name]"]),
        (job(labels=without(LABELS.name)), True, [f"Required {LABEL}[{LABELS.name}]"]),
        (job(labels=without(LABELS.name), selector={"matchLabels": {"controller-uid": "u"}}), False, []),
        (job(selector=None), True, ["Required selector", f"Invalid {LABEL}"]),
        (job({"manualSelector": True}, {"a": "b"}, {"matchLabels": {"a": "b"}}), True, []),
        (job({"manualSelector": True}, {"a": "b"}, {"matchLabels": {"a": "c"}}), True, [f"Invalid {LABEL}"]),
        (
            job({"manualSelector": True}, {"a": "b"}, {"matchLabels": {"-": "c"}}),
            True,
            ["Invalid selector.matchLabels"],
        ),
        (job(selector={"matchLabels": {"a": "b"}}), True, ["Invalid selector", f"Invalid {LABEL}"]),
    ],
)
def test_generated_labels_and_selector_are_required(made: Spec, prefixed: bool, expected: list[str]) -> None:
    assert short(validate_job(made, OPTIONS, LABELS, prefixed=prefixed)) == expected


@pytest.mark.parametrize(
    ("length", "spec", "valid"),
    [
        (61, {**INDEXED, "completions": 10}, True),
        (61, {**INDEXED, "completions": 11}, False),
        (62, {**INDEXED, "completions": 0}, True),
        (62, {"completions": 10}, True),
        (62, {**INDEXED, "completions": 1}, False),
    ],
)
def test_host_names_of_an_indexed_job_are_valid(length: int, spec: Spec, valid: bool) -> None:
    causes = validate_job(job(spec, name="j" * length), OPTIONS, LABELS)

    assert short(causes) == ([] if valid else ["Invalid metadata.name"])


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        ({"manualSelector": False}, []),
        ({"selector": {}}, ["Invalid selector"]),
        ({"manualSelector": True}, ["NotSupported manualSelector"]),
    ],
)
def test_job_template_has_no_selector(spec: Spec, expected: list[str]) -> None:
    found = validate_job_template({"spec": {"template": TEMPLATE, **spec}}, "spec", OPTIONS)

    assert short(found, "spec.spec.") == expected


# --- updates


def updated(spec: Spec, before: Spec | None = None, status: Spec | None = None, **options: bool) -> list[str]:
    new, old = job(spec), {**job(before), "status": status or {}}
    return short(validate_job_update(new, old, OPTIONS, **{"elastic": True, **options}))


@pytest.mark.parametrize(
    ("spec", "before", "elastic", "expected"),
    [
        ({"completions": 5}, {"completions": 5}, True, []),
        ({"completions": 5}, {"completions": 4}, True, ["Invalid completions"]),
        ({**INDEXED, "parallelism": 5}, {**INDEXED, "completions": 4}, True, []),
        ({**INDEXED, "parallelism": 5}, {**INDEXED, "completions": 4}, False, ["Invalid completions"]),
        ({**INDEXED, "parallelism": 3}, {**INDEXED, "completions": 4}, True, ["Invalid completions"]),
        ({**INDEXED, "parallelism": 3}, INDEXED, True, []),
        ({"parallelism": 3, "suspend": True}, {"parallelism": 2}, True, []),
        (INDEXED, {"completions": 5}, True, ["Invalid completionMode"]),
        ({"podFailurePolicy": {}}, {}, True, ["Invalid podFailurePolicy"]),
        ({"managedBy": "a.example/b"}, {}, True, ["Invalid managedBy"]),
        (
            {**INDEXED, "successPolicy": {"rules": [{"succeededCount": 1}]}},
            {**INDEXED, "successPolicy": {"rules": [{"succeededCount": 2}]}},
            True,
            ["Invalid successPolicy"],
        ),
        ({"selector": {"matchLabels": {"job-name": "j"}}}, {}, True, ["Invalid selector"]),
    ],
)
def test_most_fields_are_immutable(spec: Spec, before: Spec, elastic: bool, expected: list[str]) -> None:
    assert updated(spec, before, elastic=elastic) == expected


def changed(**pod: Any) -> Spec:
    return {"template": {"metadata": {"labels": GENERATED}, "spec": {**POD, **pod}}}


SCHEDULING = changed(nodeSelector={"a": "b"})
RESOURCES = changed(containers=[{**CONTAINER, "resources": {"requests": {"cpu": "1"}}}])
IMAGE = changed(containers=[{**CONTAINER, "image": "x"}])
STARTED = {"startTime": "2024-01-02T03:04:05Z"}
SUSPENDED = {**STARTED, "conditions": [{"type": "Suspended", "status": "True"}]}
RESUMED = {**STARTED, "conditions": [{"type": "Suspended", "status": "False"}]}


@pytest.mark.parametrize(
    ("change", "suspend", "status", "option", "field"),
    [
        (SCHEDULING, True, {}, "", ""),
        (SCHEDULING, False, {}, "", "template"),
        (SCHEDULING, True, STARTED, "", "template"),
        (SCHEDULING, True, SUSPENDED, "", "template"),
        (SCHEDULING, True, SUSPENDED, "scheduling", ""),
        (SCHEDULING, True, RESUMED, "scheduling", "template"),
        (SCHEDULING, True, STARTED, "scheduling", "template"),
        (SCHEDULING, True, {**SUSPENDED, "active": 1}, "scheduling", "template"),
        (SCHEDULING, False, SUSPENDED, "scheduling", "template"),
        (RESOURCES, True, {}, "", "template"),
        (RESOURCES, True, {}, "resources", ""),
        (RESOURCES, True, SUSPENDED, "resources", ""),
        (RESOURCES, True, {**SUSPENDED, "active": 1}, "resources", "template"),
        (RESOURCES, False, {}, "resources", "template"),
        (RESOURCES, True, STARTED, "resources", "template"),
        (IMAGE, True, {}, "resources", "template.spec"),
        (IMAGE, True, {}, "scheduling", "template"),
    ],
)
def test_template_of_a_suspended_job_may_change_in_part(
    change: Spec, suspend: bool, status: Spec, option: str, field: str
) -> None:
    options = {option: True} if option else {}

    assert updated(change, {"suspend": suspend}, status, **options) == ([f"Invalid {field}"] if field else [])


NODES = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
PODS = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}


@pytest.mark.parametrize(
    ("new", "old", "valid"),
    [
        ({"affinity": NODES}, {}, True),
        ({}, {"affinity": NODES}, True),
        ({"affinity": {}}, {"affinity": NODES}, True),
        ({"affinity": {**NODES, **PODS}}, {"affinity": PODS}, True),
        ({"affinity": PODS}, {}, False),
        ({"affinity": PODS}, {"affinity": {**PODS, **NODES}}, True),
        ({"tolerations": [{"operator": "Exists"}]}, {}, True),
        ({"schedulingGates": [{"name": "a"}]}, {}, True),
        ({}, {"schedulingGates": [{"name": "a"}]}, True),
        ({"dnsPolicy": "Default"}, {}, False),
    ],
)
def test_scheduling_directives_may_change_before_a_job_starts(new: Spec, old: Spec, valid: bool) -> None:
    spec, before = changed(**copy.deepcopy(new)), {"suspend": True, **changed(**copy.deepcopy(old))}

    assert updated(spec, before) == ([] if valid else ["Invalid template"])


@pytest.mark.parametrize("name", ["annotations", "labels"])
def test_metadata_of_pods_may_change_before_a_job_starts(name: str) -> None:
    spec = changed()
    spec["template"]["metadata"] = {"labels": {**GENERATED, "a": "b"}, "annotations": {"c": "d"}}

    assert updated(spec, {"suspend": True, **changed()}) == []
    assert updated({**changed()}, {"suspend": True, **spec}) == []
