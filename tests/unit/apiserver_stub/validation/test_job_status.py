"""Tests for the validation of updates of the status of Jobs."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.kinds import jobs
from apiserver_stub.kinds.registry import Strategy
from apiserver_stub.options import parse
from apiserver_stub.validation.job_indexes import IndexesError, first_overlap, parse_intervals

Status = dict[str, Any]
START, LATER, END = (f"2024-01-02T03:0{minute}:05Z" for minute in (4, 5, 9))
INDEXED = {"completionMode": "Indexed", "completions": 5, "backoffLimitPerIndex": 1}
NONE: dict[str, Any] = {}


def strategy(*arguments: str) -> Strategy:
    found = jobs.resources(parse(list(arguments)))
    return next(item.strategy for item in found if item.kind == "Job")


def errors(new: Status, old: Status | None = None, spec: Any = None, *arguments: str) -> list[tuple[str, str]]:
    before = {"metadata": {"name": "a"}, "spec": spec or {}, "status": old or {}}
    found = strategy(*(arguments or ("--compatibility-version=1.36",)))
    return [
        (cause.field, cause.message) for cause in found.validate_update({**before, "status": new}, before, "status")
    ]


def reached(*kinds: str, status: str = "True") -> Status:
    return {"conditions": [{"type": kind, "status": status} for kind in kinds]}


COMPLETE = {"startTime": START, "completionTime": END, **reached("SuccessCriteriaMet", "Complete")}
FAILED = {"startTime": START, **reached("FailureTarget", "Failed")}


@pytest.mark.parametrize(
    ("spec", "old", "new"),
    [
        (NONE, NONE, {"startTime": START, "active": 2, "ready": 1, "uncountedTerminatedPods": {"failed": ["u"]}}),
        (NONE, {"startTime": START, "active": 1}, COMPLETE),
        (NONE, {"startTime": START, **reached("FailureTarget")}, FAILED),
        (INDEXED, NONE, {"completedIndexes": "0,2-3", "failedIndexes": "1,4"}),
        ({"suspend": True}, {"startTime": START}, reached("Suspended")),
        (
            NONE,
            {"startTime": START, **reached("Suspended")},
            {"startTime": LATER, **reached("Suspended", status="False")},
        ),
        ({"suspend": True, "completions": 0}, NONE, {**COMPLETE, "startTime": None}),
        ({**INDEXED, "parallelism": 5}, {"succeeded": 3}, {"succeeded": 2}),
        ({**INDEXED, "completions": 2}, {"completedIndexes": "0-4"}, {"completedIndexes": "0-4", "active": 1}),
        (NONE, {**reached("Failed")}, {**reached("Failed"), "failed": 1}),
    ],
)
def test_possible_changes_of_a_job_are_accepted(spec: Any, old: Status, new: Status) -> None:
    assert errors(new, old, spec) == []


@pytest.mark.parametrize(
    ("spec", "old", "new", "field", "message"),
    [
        (NONE, COMPLETE, {**COMPLETE, "completionTime": LATER}, "completionTime", "field is immutable"),
        (NONE, NONE, {**COMPLETE, "completionTime": None}, "completionTime", "is required for Complete jobs"),
        (NONE, NONE, {**COMPLETE, "startTime": None}, "startTime", "startTime is required for finished job"),
        (NONE, NONE, {"completionTime": END}, "completionTime", "when there is no Complete=True condition"),
        (NONE, NONE, {**COMPLETE, "startTime": "2024-02-01T00:00:00Z"}, "completionTime", "equal to or after"),
        (NONE, {"startTime": START}, {"startTime": LATER}, "startTime", "immutable for unsuspended job"),
        (NONE, {"startTime": START}, NONE, "startTime", "immutable for unsuspended job"),
        (NONE, NONE, {**COMPLETE, "active": 1}, "active", "active>0 is invalid for finished job"),
        (NONE, NONE, {**FAILED, "terminating": 1}, "terminating", "terminating>0 is invalid"),
        (NONE, NONE, {"active": 1, "ready": 2}, "ready", "more ready pods than active"),
        (NONE, {"failed": 2}, {"failed": 1}, "failed", "cannot decrease the failed counter"),
        (NONE, {"succeeded": 2}, NONE, "succeeded", "cannot decrease the succeeded counter"),
        (
            NONE,
            NONE,
            {**FAILED, "uncountedTerminatedPods": {"failed": ["u"]}},
            "uncountedTerminatedPods",
            "must be empty for finished job",
        ),
        (NONE, NONE, {"completedIndexes": "1"}, "completedIndexes", "when non-indexed completion mode"),
        (NONE, NONE, {"failedIndexes": ""}, "failedIndexes", "when backoffLimitPerIndex is null"),
        (INDEXED, NONE, {"completedIndexes": "5"}, "completedIndexes", 'too large index: "5"'),
        (INDEXED, NONE, {"failedIndexes": "2,1"}, "failedIndexes", "non-increasing order, previous: 2, current: 1"),
        (INDEXED, NONE, {"completedIndexes": "0-2", "failedIndexes": "2"}, "failedIndexes", "overlap at index: 2"),
        (NONE, FAILED, {**FAILED, **reached("FailureTarget")}, "conditions", "cannot disable the terminal Failed=True"),
        (NONE, NONE, {**FAILED, **reached("Failed")}, "conditions", "without the FailureTarget=true"),
        (NONE, NONE, {**COMPLETE, **reached("Complete")}, "conditions", "without the SuccessCriteriaMet=true"),
        (NONE, reached("FailureTarget"), reached("FailureTarget", "SuccessCriteriaMet"), "conditions", "FailureTarget"),
        (NONE, reached("SuccessCriteriaMet"), NONE, "conditions", "cannot disable the SuccessCriteriaMet=True"),
    ],
)
def test_impossible_changes_of_a_job_are_rejected(
    spec: Any, old: Status, new: Status, field: str, message: str
) -> None:
    ((found, text),) = errors(new, old, spec)

    assert found == f"status.{field}"
    assert message in text


def test_jobs_that_are_complete_and_failed_are_rejected() -> None:
    both = {**COMPLETE, **reached("SuccessCriteriaMet", "Complete", "FailureTarget", "Failed")}

    assert [message for _, message in errors(both)] == [
        "Invalid value: cannot set Complete=True and Failed=true conditions",
        "Invalid value: cannot set Complete=True and FailureTarget=true conditions",
        "Invalid value: cannot set SuccessCriteriaMet=True and Failed=true conditions",
        "Invalid value: cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
    ]


def test_uids_of_uncounted_pods_are_unique() -> None:
    found = errors({"uncountedTerminatedPods": {"succeeded": ["u", ""], "failed": ["u"]}})

    assert [field for field, _ in found] == [
        "status.uncountedTerminatedPods.succeeded[1]",
        "status.uncountedTerminatedPods.failed[0]",
    ]


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ([], 0),
        (["--compatibility-version=1.31"], 0),
        (["--compatibility-version=1.31", "--feature-gates=JobManagedBy=true"], 1),
        (["--compatibility-version=1.32", "--feature-gates=JobManagedBy=false"], 0),
    ],
)
def test_transitions_are_validated_if_other_controllers_may_make_them(arguments: list[str], count: int) -> None:
    assert len(errors(NONE, {"failed": 1}, NONE, *(arguments or ["--compatibility-version=1.29"]))) == count


@pytest.mark.parametrize(
    ("release", "gate", "spec", "count"),
    [
        ("1.29", "true", NONE, 0),
        ("1.32", "true", NONE, 0),
        ("1.32", "false", NONE, 2),
        ("1.32", "false", {**INDEXED, "successPolicy": {}}, 0),
    ],
)
def test_success_criteria_need_a_policy_without_pod_replacement(release: str, gate: str, spec: Any, count: int) -> None:
    gates = f"--feature-gates=JobPodReplacementPolicy={gate}" + ("" if release == "1.29" else ",JobManagedBy=false")
    found = errors(reached("SuccessCriteriaMet"), NONE, spec, f"--compatibility-version={release}", gates)

    assert len(found) == count


def test_jobs_with_success_policy_need_the_criteria_to_complete() -> None:
    spec = {**INDEXED, "successPolicy": {"rules": []}}
    arguments = ("--compatibility-version=1.32", "--feature-gates=JobManagedBy=false")

    ((_, message),) = errors(reached("Complete"), NONE, spec, *arguments)

    assert "cannot set Complete=True for Job with SuccessPolicy" in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0-1-2", "at most two parts separated by '-'"),
        ("a", 'cannot convert string to integer for index: "a"'),
        ("-1", 'cannot convert string to integer for index: ""'),
        ("0-", 'cannot convert string to integer for index: ""'),
        ("0,,1", 'cannot convert string to integer for index: ""'),
        ("1-9", 'too large index: "9"'),
        ("2-2", "non-increasing order, previous: 2, current: 2"),
        ("0-2,2", "non-increasing order, previous: 2, current: 2"),
    ],
)
def test_invalid_indexes_are_reported(text: str, message: str) -> None:
    with pytest.raises(IndexesError) as found:
        parse_intervals(text, 5)

    assert message in str(found.value)


@pytest.mark.parametrize(
    ("text", "other", "expected"), [("0-1,4", "2-3,4", 4), ("0", "1", None), ("a,3", "2-3", 3), ("", "0", None)]
)
def test_common_index_of_two_texts_is_found(text: str, other: str, expected: int | None) -> None:
    assert first_overlap(text, other, 5) == expected
