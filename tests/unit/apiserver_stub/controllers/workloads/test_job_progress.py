"""Tests for the decisions of the Job controller: indexes, failure and success policies, restarts and deadlines."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.controllers.workloads import job_progress as progress
from nodeagent.base.identity import Identity

NAMES = progress.JobNames.of(Identity())
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def job(**spec: Any) -> Object:
    return {"metadata": {"name": "task"}, "spec": spec}


def pod(phase: str = "Running", *, deleted: bool = False, **status: Any) -> Object:
    metadata: Object = {"name": "task-0", "namespace": "default"}
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": metadata, "status": {"phase": phase, **status}}


def exited(name: str, code: int) -> Object:
    return {"name": name, "state": {"terminated": {"exitCode": code}}}


def test_finished_jobs_have_a_true_condition_complete_or_failed() -> None:
    for kind, status, expected in (
        ("Complete", "True", True),
        ("Failed", "True", True),
        ("Complete", "False", False),
        ("Suspended", "True", False),
    ):
        condition = {"type": kind, "status": status}
        found = progress.finished_condition({"status": {"conditions": [{"type": "Other"}, condition]}})
        assert found == (condition if expected else None), (kind, status)
    assert progress.finished_condition({}) is None


def test_state_of_a_pod_depends_on_phase_deletion_and_replacement_policy() -> None:
    for phase, deleted, policy, expected in (
        ("Running", False, None, (False, False, True)),
        ("Pending", False, "Failed", (False, False, True)),
        ("Succeeded", False, None, (True, False, False)),
        ("Succeeded", True, None, (True, False, False)),
        ("Failed", False, None, (False, True, False)),
        ("Failed", True, "Failed", (False, True, False)),
        ("Running", True, None, (False, True, False)),
        ("Running", True, "TerminatingOrFailed", (False, True, False)),
        ("Running", True, "Failed", (False, False, False)),
    ):
        found, owner = pod(phase, deleted=deleted), job(podReplacementPolicy=policy)
        state = progress.succeeded(found), progress.failed(found, owner), progress.active(found)
        assert state == expected, (phase, deleted, policy)


def test_ready_pods_have_a_true_condition() -> None:
    for kind, status, expected in (("Ready", "True", True), ("Ready", "False", False), ("Other", "True", False)):
        assert progress.ready(pod(conditions=[{"type": kind, "status": status}])) is expected, (kind, status)
    assert not progress.ready(pod())


def test_index_and_failures_are_read_from_annotations() -> None:
    index, failures = "batch.kubernetes.io/job-completion-index", "batch.kubernetes.io/job-index-failure-count"
    for given, expected in (
        ({index: "3", failures: "2"}, (3, 2)),
        ({index: "0"}, (0, 0)),
        ({index: "x", failures: "x"}, (None, 0)),
        ({}, (None, 0)),
        (None, (None, 0)),
    ):
        found = {"metadata": {"annotations": given}}
        assert (progress.index_of(found, NAMES), progress.failures_of(found, NAMES)) == expected, given


def test_indexes_are_lists_of_numbers_and_ranges() -> None:
    for text, completions, expected in (
        ("1,3-5,7", 9, {1, 3, 4, 5, 7}),
        ("0-9", 3, {0, 1, 2}),
        ("2", 2, set()),
        ("1", 2, {1}),
        ("x,1-x,1", 9, {1}),
        ("", 9, set()),
        (None, 9, set()),
    ):
        assert progress.parse_indexes(text, completions) == expected, text
    for indexes, text in (({1, 3, 4, 5, 7}, "1,3-5,7"), ({0, 1}, "0,1"), ({4, 0, 1, 2}, "0-2,4"), (set(), "")):
        assert progress.format_indexes(indexes) == text


def test_first_rule_of_the_failure_policy_that_matches_decides() -> None:
    failed = pod(
        "Failed", containerStatuses=[{"name": "ok"}, exited("app", 42)], initContainerStatuses=[exited("i", 7)]
    )

    def codes(operator: str, *values: int, container: str | None = None) -> Object:
        return {"onExitCodes": {"operator": operator, "values": list(values), "containerName": container}}

    def on(kind: str, status: str = "True") -> Object:
        return {"onPodConditions": [{"type": kind, "status": status}]}

    text = "Container {} for pod default/task-0 failed with exit code {} matching {} rule at index {}"
    for title, found, rules, expected in (
        ("no rules", failed, [], ("", "")),
        ("in", failed, [codes("In", 42)], ("A0", text.format("app", 42, "A0", 0))),
        ("other code", failed, [codes("In", 41)], ("", "")),
        ("init container", failed, [codes("In", 7)], ("A0", text.format("i", 7, "A0", 0))),
        ("not in", failed, [codes("NotIn", 42)], ("A0", text.format("i", 7, "A0", 0))),
        ("all listed", failed, [codes("NotIn", 42, 7)], ("", "")),
        ("by name", failed, [codes("NotIn", 1, container="i")], ("A0", text.format("i", 7, "A0", 0))),
        ("name of another", failed, [codes("In", 42, container="i")], ("", "")),
        ("second rule", failed, [codes("In", 1), codes("In", 42)], ("A1", text.format("app", 42, "A1", 1))),
        ("success is no failure", pod("Failed", containerStatuses=[exited("app", 0)]), [codes("NotIn", 1)], ("", "")),
        ("codes of a running pod", pod(containerStatuses=[exited("app", 1)]), [codes("In", 1)], ("A0", None)),
        (
            "condition",
            pod("Failed", conditions=[{"type": "DisruptionTarget", "status": "True"}]),
            [on("Other"), on("DisruptionTarget")],
            ("A1", "Pod default/task-0 has condition DisruptionTarget matching A1 rule at index 1"),
        ),
        (
            "condition with another status",
            pod("Failed", conditions=[{"type": "DisruptionTarget", "status": "False"}]),
            [on("DisruptionTarget")],
            ("", ""),
        ),
        (
            "condition of a running pod",
            pod(conditions=[{"type": "DisruptionTarget", "status": "True"}]),
            [on("DisruptionTarget")],
            ("", ""),
        ),
        ("rule without a pattern", failed, [{}], ("", "")),
    ):
        policy = {"rules": [{"action": f"A{number}", **rule} for number, rule in enumerate(rules)]}
        action, message = progress.action_for(job(podFailurePolicy=policy), found)
        assert action == expected[0], title
        assert expected[1] is None or message == expected[1], title
    assert progress.action_for(job(), failed) == ("", "")


def test_success_policy_is_met_by_indexes_or_their_number() -> None:
    for title, rules, done, expected in (
        ("no rules", [], {0}, ""),
        ("all indexes", [{"succeededIndexes": "0-1"}], {0, 1, 2}, "Matched rules at index 0"),
        ("an index is missing", [{"succeededIndexes": "0-1"}], {0, 2}, ""),
        ("no index exists", [{"succeededIndexes": "8-9"}], {0}, ""),
        ("enough", [{"succeededCount": 2}], {3, 4}, "Matched rules at index 0"),
        ("too few", [{"succeededCount": 2}], {3}, ""),
        ("enough of some", [{"succeededIndexes": "0-2", "succeededCount": 2}], {0, 2}, "Matched rules at index 0"),
        ("too few of some", [{"succeededIndexes": "0-2", "succeededCount": 2}], {0, 3}, ""),
        ("second rule", [{"succeededCount": 4}, {"succeededCount": 1}], {0}, "Matched rules at index 1"),
        ("none has succeeded", [{"succeededCount": 0}], set(), ""),
    ):
        assert progress.matching_success_rule(job(completions=5, successPolicy={"rules": rules}), done) == expected, (
            title
        )
    assert progress.matching_success_rule(job(successPolicy={"rules": [{"succeededIndexes": "0"}]}), {0}) == ""
    assert progress.matching_success_rule(job(completions=5), {0}) == ""


def test_restarts_of_containers_are_limited() -> None:
    restarted = pod(containerStatuses=[{"restartCount": 2}, {}], initContainerStatuses=[{"restartCount": 1}])
    for policy, limit, pods, expected in (
        ("OnFailure", 3, [restarted], True),
        ("OnFailure", 4, [restarted], False),
        ("OnFailure", 6, [restarted, {**restarted, "status": {**restarted["status"], "phase": "Pending"}}], True),
        ("OnFailure", 0, [restarted], True),
        ("OnFailure", 0, [pod()], False),
        ("OnFailure", 1, [pod("Failed", containerStatuses=[{"restartCount": 2}])], False),
        ("OnFailure", None, [pod(containerStatuses=[{"restartCount": 1}])], True),
        ("Never", 0, [restarted], False),
    ):
        owner = job(backoffLimit=limit, template={"spec": {"restartPolicy": policy}})
        assert progress.exceeds_restarts(owner, pods) is expected, (policy, limit)


def test_conditions_without_a_reason_have_no_message() -> None:
    found = progress.condition("Complete", "True", "", "", NOW)
    assert found == {
        "type": "Complete",
        "status": "True",
        "lastProbeTime": "2026-01-01T12:00:00Z",
        "lastTransitionTime": "2026-01-01T12:00:00Z",
    }
    found = progress.condition("Failed", "True", "R", "m", NOW)
    assert (found["reason"], found["message"]) == ("R", "m")


def test_time_left_until_the_deadline_of_an_active_job() -> None:
    start = "2026-01-01T11:59:00Z"
    for spec, started, expected in (
        ({"activeDeadlineSeconds": 100}, start, 40.0),
        ({"activeDeadlineSeconds": 30}, start, -30.0),
        ({"activeDeadlineSeconds": 100, "suspend": True}, start, None),
        ({"activeDeadlineSeconds": 100}, None, None),
        ({}, start, None),
    ):
        assert progress.seconds_left(job(**spec), started, NOW) == expected, (spec, started)
