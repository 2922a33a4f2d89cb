"""Tests for the decisions of the Deployment controller: sizes of ReplicaSets, annotations and conditions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.controllers.workloads import deployment_rollout as rollout
from nodeagent.base.identity import Identity

NAMES = rollout.AnnotationNames.of(Identity())
REVISION, HISTORY = "deployment.kubernetes.io/revision", "deployment.kubernetes.io/revision-history"
DESIRED, MOST = "deployment.kubernetes.io/desired-replicas", "deployment.kubernetes.io/max-replicas"
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
DEADLINE = {"progressDeadlineSeconds": 600}


def rolling(replicas: int | None, surge: Any = None, unavailable: Any = None, **spec: Any) -> Object:
    """Return a Deployment with the strategy RollingUpdate."""
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    return {"metadata": {"name": "web"}, "spec": {"replicas": replicas, "strategy": strategy, **spec}}


def replica_set(name: str, size: int | None, available: int = 0, *, at: str = "", **annotations: str) -> Object:
    """Return a ReplicaSet; its pods exist, *available* of them are available."""
    metadata = {"name": name, "creationTimestamp": at, "annotations": annotations}
    status = {"replicas": size or 0, "readyReplicas": available, "availableReplicas": available}
    return {"metadata": metadata, "spec": {"replicas": size}, "status": status}


def progressing(reason: str, status: str = "True", seconds_ago: int = 0) -> Object:
    time = (NOW - timedelta(seconds=seconds_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "type": "Progressing",
        "status": status,
        "reason": reason,
        "lastUpdateTime": time,
        "lastTransitionTime": time,
    }


def named(sizes: list[tuple[Object, int]]) -> dict[str, int]:
    return {item["metadata"]["name"]: size for item, size in sizes}


def test_limits_round_surplus_pods_up_and_unavailable_ones_down() -> None:
    for replicas, surge, unavailable, expected in (
        (10, "25%", "25%", (3, 2)),
        (10, 2, 1, (2, 1)),
        (10, 0, 0, (0, 1)),
        (3, "0%", "25%", (0, 1)),
        (3, 1, 0, (1, 0)),
        (3, 0, 5, (0, 3)),
        (10, None, None, (0, 1)),
        (0, 1, 1, (0, 0)),
        (None, 1, 1, (0, 0)),
    ):
        assert rollout.limits(rolling(replicas, surge, unavailable)) == expected, (replicas, surge, unavailable)
    recreate = {"spec": {"replicas": 3, "strategy": {"type": "Recreate"}}}
    assert rollout.limits(recreate) == (0, 0)
    assert rollout.limits({"spec": {"replicas": 3}}) == (0, 0)
    assert rollout.limits({"spec": {"replicas": 3, "strategy": {"type": "RollingUpdate"}}}) == (0, 1)
    assert rollout.max_surge(recreate) == rollout.max_surge({"spec": {"replicas": 3}}) == 0
    assert rollout.max_surge({"spec": {"replicas": 3, "strategy": {"type": "RollingUpdate"}}}) == 0
    assert rollout.max_surge(rolling(3, "50%")) == 2


def test_new_replica_set_grows_up_to_the_surplus() -> None:
    old = replica_set("old", 10)
    for current, surge, others, expected in (
        (0, 3, 10, 3),
        (3, 3, 10, 3),
        (3, 3, 8, 5),
        (8, 3, 0, 10),
        (0, 0, 10, 0),
        (4, 0, 9, 4),
    ):
        sets = [replica_set("new", current), {**old, "spec": {"replicas": others}}]
        assert rollout.new_size(rolling(10, surge), sets, current) == expected, (current, surge, others)
    recreate = {"spec": {"replicas": 10, "strategy": {"type": "Recreate"}}}
    assert rollout.new_size(recreate, [old], 0) == 10
    assert rollout.new_size({"spec": {"replicas": 10}}, [old], 0) == 10


def test_old_replica_sets_shrink_by_unavailable_pods_first_then_by_age() -> None:
    for title, deployment, old, new, expected in (
        ("broken pods do not wait", rolling(4, 1, 1), [replica_set("a", 4, 1)], replica_set("n", 1, 0), {"a": 3}),
        ("as many as are available", rolling(4, 1, 1), [replica_set("a", 4, 4)], replica_set("n", 1, 1), {"a": 2}),
        ("new pods must be available", rolling(4, 1, 0), [replica_set("a", 4, 4)], replica_set("n", 1, 0), {}),
        ("one new pod is available", rolling(4, 1, 0), [replica_set("a", 4, 4)], replica_set("n", 1, 1), {"a": 3}),
        ("no old pods", rolling(4, 1, 1), [replica_set("a", 0)], replica_set("n", 4, 4), {}),
        (
            "oldest first",
            rolling(4, 1, 2),
            [
                replica_set("young", 2, 2, at="2026-01-02T00:00:00Z"),
                replica_set("old", 2, 2, at="2026-01-01T00:00:00Z"),
            ],
            replica_set("n", 0, 0),
            {"old": 0},
        ),
        (
            "names decide among those of one second",
            rolling(4, 1, 2),
            [replica_set("b", 2, 2), replica_set("a", 2, 2)],
            replica_set("n", 0, 0),
            {"a": 0},
        ),
        (
            "broken pods of a younger one before available ones",
            rolling(4, 0, 1),
            [replica_set("a", 2, 2), replica_set("b", 2, 0)],
            replica_set("n", 0, 0),
            {"b": 1},
        ),
    ):
        assert named(rollout.old_sizes(deployment, old, new)) == expected, title


def test_change_of_the_size_is_distributed_in_proportion() -> None:
    def sets(*sizes: int, most: str = "") -> list[Object]:
        annotations = {MOST: most} if most else {}
        times = (f"2026-01-0{number}T00:00:00Z" for number in range(1, 9))
        return [
            replica_set(name, size, at=at, **annotations) for name, size, at in zip("abcd", sizes, times, strict=False)
        ]

    for title, deployment, found, expected in (
        ("up", rolling(20, 0), sets(6, 4, most="10"), {"a": 12, "b": 8}),
        ("down", rolling(5, 0), sets(6, 4, most="10"), {"a": 3, "b": 2}),
        ("with surplus pods", rolling(20, "50%"), sets(10, 5, most="15"), {"a": 20, "b": 10}),
        ("remainder to the largest", rolling(11, 0), sets(6, 4, most="10"), {"a": 7, "b": 4}),
        ("remainder to the youngest of equal size", rolling(11, 0), sets(5, 5, most="10"), {"a": 5, "b": 6}),
        ("remainder of a reduction to the oldest", rolling(9, 0), sets(5, 5, most="10"), {"a": 4, "b": 5}),
        ("no change", rolling(10, 0), sets(6, 4, most="10"), {"a": 6, "b": 4}),
        ("to nothing", rolling(0, 1), sets(6, 4, most="10"), {"a": 0, "b": 0}),
        ("without the annotation", {**rolling(20, 0), "status": {"replicas": 10}}, sets(6, 4), {"a": 12, "b": 8}),
        ("without annotation and status", rolling(12, 0), sets(6, 4), {"a": 8, "b": 4}),
        ("empty ones are left out", rolling(20, 0), sets(6, 0, 4, most="10"), {"a": 12, "c": 8}),
        ("none", rolling(20, 0), [], {}),
    ):
        assert named(rollout.proportional_sizes(deployment, found, NAMES)) == expected, title


def test_size_annotations_reveal_a_changed_size() -> None:
    deployment = rolling(4, "50%")
    assert rollout.sizes(deployment, NAMES) == {DESIRED: "4", MOST: "6"}
    for size, given, expected in (
        (4, {DESIRED: "4"}, False),
        (4, {DESIRED: "3"}, True),
        (4, {DESIRED: "x"}, False),
        (4, {}, False),
        (0, {DESIRED: "3"}, False),
    ):
        found = rollout.is_scaled(deployment, [replica_set("a", size, **given)], NAMES)
        assert found is expected, (size, given)
    assert not rollout.is_scaled(deployment, [{"metadata": {}, "spec": {"replicas": 1}}], NAMES)


def test_new_replica_set_is_the_oldest_with_the_same_template() -> None:
    def with_template(name: str, image: str, at: str, **labels: str) -> Object:
        found = replica_set(name, 1, at=at)
        found["spec"]["template"] = {"metadata": {"labels": labels}, "spec": {"image": image}}
        return found

    deployment = with_template("web", "a", "", app="web")
    one = with_template("one", "b", "2026-01-01T00:00:00Z", app="web")
    two = with_template("two", "a", "2026-01-02T00:00:00Z", app="web", **{"pod-template-hash": "x"})
    three = with_template("three", "a", "2026-01-03T00:00:00Z", app="web")
    assert rollout.find_new(deployment, [one, three, two]) is two
    assert rollout.find_new(deployment, [one]) is None
    assert rollout.without_hash({}) == {"metadata": {"labels": {}}}
    without = {"metadata": {"name": "web"}, "spec": {}}
    assert rollout.find_new(without, [one, without]) is without


def test_new_replica_set_has_annotations_of_the_deployment_and_revisions() -> None:
    deployment = rolling(4, 1)
    deployment["metadata"]["annotations"] = {
        "note": "x",
        REVISION: "9",
        HISTORY: "1",
        DESIRED: "9",
        MOST: "9",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "deprecated.deployment.rollback.to": "1",
    }

    created = rollout.annotate_new(deployment, None, 3, NAMES, exists=False)
    assert created == {"note": "x", REVISION: "3", DESIRED: "4", MOST: "5"}
    for before, expected in (
        ({REVISION: "2"}, {REVISION: "3", HISTORY: "2"}),
        ({REVISION: "2", HISTORY: "1"}, {REVISION: "3", HISTORY: "1,2"}),
        ({REVISION: "3"}, {REVISION: "3"}),
        ({REVISION: "4"}, {REVISION: "4"}),
        ({REVISION: "x"}, {REVISION: "x"}),
        ({}, {REVISION: "3"}),
    ):
        found = rollout.annotate_new(deployment, before, 3, NAMES, exists=True)
        assert found == {"note": "x", **expected}, before
    bare = {"metadata": {"name": "web"}, "spec": {}}
    assert rollout.annotate_new(bare, None, 1, NAMES, exists=True) == {REVISION: "1"}

    long = ",".join(["1000"] * 400)  # 1999 characters; five more exceed the limit.
    found = rollout.annotate_new(bare, {REVISION: "2", HISTORY: long}, 3, NAMES, exists=True)
    assert found[HISTORY] == ",".join([*["1000"] * 399, "2"])
    full = ",".join(["1000"] * 399) + ",10"  # 1997 characters.
    found = rollout.annotate_new(bare, {REVISION: "22", HISTORY: full}, 30, NAMES, exists=True)
    assert found[HISTORY] == full + ",22"  # Exactly 2000 characters.


def test_revision_is_a_number_or_zero() -> None:
    for given, expected in (({REVISION: "7"}, 7), ({REVISION: "x"}, 0), ({}, 0), (None, 0)):
        assert rollout.revision_of({"metadata": {"annotations": given}}, NAMES) == expected, given


def test_counts_of_the_status_are_those_of_the_replica_sets() -> None:
    deployment = rolling(4, 1, 1)
    deployment["metadata"]["generation"] = 7
    deployment["status"] = {"collisionCount": 2}
    new = replica_set("n", 2, 1)
    found = rollout.status_of(deployment, [replica_set("o", 3, 2), new], new, NOW)
    (available,) = found.pop("conditions")
    assert found == {
        "observedGeneration": 7,
        "replicas": 5,
        "updatedReplicas": 2,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "unavailableReplicas": 2,
        "collisionCount": 2,
    }
    assert available["status"] == "True"
    assert available["message"] == "Deployment has minimum availability."

    found = rollout.status_of(deployment, [replica_set("o", 2, 2)], None, NOW)
    assert "updatedReplicas" not in found
    assert found["conditions"][0]["reason"] == "MinimumReplicasUnavailable"
    assert found["conditions"][0]["message"] == "Deployment does not have minimum availability."
    more = {**replica_set("o", 1, 3), "spec": {"replicas": 1}}
    assert "unavailableReplicas" not in rollout.status_of(deployment, [more], None, NOW)
    assert rollout.counted([{"status": None}, {}], "replicas") == 0


def test_progress_condition_states_completion_progress_and_timeout() -> None:
    complete = replica_set("n", 2, 2)
    waiting = replica_set("n", 2, 1)
    same = {"replicas": 2, "updatedReplicas": 2, "readyReplicas": 1, "availableReplicas": 1}
    for title, spec, before, new, expected in (
        ("complete", DEADLINE, {}, complete, ("True", "NewReplicaSetAvailable")),
        ("first pods", DEADLINE, {}, waiting, ("True", "ReplicaSetUpdated")),
        ("no change", DEADLINE, same, waiting, None),
        ("no old pods left", DEADLINE, {**same, "replicas": 3}, waiting, ("True", "ReplicaSetUpdated")),
        ("more updated", DEADLINE, {**same, "updatedReplicas": 1}, waiting, ("True", "ReplicaSetUpdated")),
        ("more ready", DEADLINE, {**same, "readyReplicas": 0}, waiting, ("True", "ReplicaSetUpdated")),
        ("more available", DEADLINE, {**same, "availableReplicas": 0}, waiting, ("True", "ReplicaSetUpdated")),
        ("fewer ready", DEADLINE, {**same, "readyReplicas": 2}, waiting, None),
        ("no deadline", {}, {}, complete, None),
        ("no deadline by the largest number", {"progressDeadlineSeconds": 2**31 - 1}, {}, complete, None),
    ):
        deployment = {**rolling(2, 1, 0, **spec), "status": before}
        status = rollout.rollout_status(deployment, [new], new, NOW)
        found = [(item["status"], item["reason"]) for item in status["conditions"] if item["type"] == "Progressing"]
        assert found == ([expected] if expected else []), title


def test_progress_condition_changes_by_its_former_state() -> None:
    waiting, complete = replica_set("n", 2, 1), replica_set("n", 2, 2)
    same = {"replicas": 2, "updatedReplicas": 2, "readyReplicas": 1, "availableReplicas": 1}
    for title, old, new, changes, expected in (
        ("within the deadline", progressing("ReplicaSetUpdated", seconds_ago=600), waiting, {}, None),
        ("late", progressing("ReplicaSetUpdated", seconds_ago=601), waiting, {}, "ProgressDeadlineExceeded"),
        ("complete before", progressing("NewReplicaSetAvailable", seconds_ago=601), waiting, {}, None),
        ("already timed out", progressing("ProgressDeadlineExceeded", "False"), waiting, {}, None),
        ("recovered", progressing("ProgressDeadlineExceeded", "False"), complete, {}, "NewReplicaSetAvailable"),
        ("without a time", progressing("ReplicaSetUpdated") | {"lastUpdateTime": None}, waiting, {}, None),
        ("rollout of a complete one", progressing("NewReplicaSetAvailable"), waiting, {"replicas": 3}, None),
    ):
        deployment = {**rolling(2, 1, 0, **DEADLINE), "status": {**same, **changes, "conditions": [old]}}
        status = rollout.rollout_status(deployment, [new], new, NOW)
        (found,) = (item for item in status["conditions"] if item["type"] == "Progressing")
        assert found["reason"] == (expected or old["reason"]), title
        if expected == "ProgressDeadlineExceeded":
            assert (found["status"], found["message"]) == ("False", 'ReplicaSet "n" has timed out progressing.')

    old = progressing("ReplicaSetUpdated", seconds_ago=60)
    for status, transition in (("True", old["lastTransitionTime"]), ("Unknown", "2026-01-01T12:00:00Z")):
        known = {**old, "status": status}
        deployment = {**rolling(2, 1, 0, **DEADLINE), "status": {"conditions": [known]}}
        (found,) = (
            item
            for item in rollout.rollout_status(deployment, [waiting], waiting, NOW)["conditions"]
            if item["type"] == "Progressing"
        )
        assert (found["lastTransitionTime"], found["lastUpdateTime"]) == (transition, "2026-01-01T12:00:00Z"), status
        assert found["message"] == 'ReplicaSet "n" is progressing.'

    status = rollout.rollout_status(rolling(0, 1, 0, **DEADLINE), [], None, NOW)
    assert 'Deployment "web" has successfully progressed.' in [item["message"] for item in status["conditions"]]
    without_deadline = {**rolling(2, 1, 0), "status": {"conditions": [old]}}
    status = rollout.rollout_status(without_deadline, [waiting], waiting, NOW)
    assert [item["type"] for item in status["conditions"]] == ["Available"]


def test_failure_of_a_replica_set_is_a_condition_of_the_deployment() -> None:
    time = "2026-01-01T00:00:00Z"
    broken = replica_set("n", 2)
    broken["status"]["conditions"] = [
        {
            "type": "ReplicaFailure",
            "status": "True",
            "reason": "FailedCreate",
            "message": "m",
            "lastTransitionTime": time,
        }
    ]
    other = replica_set("o", 2)
    other["status"]["conditions"] = [{"type": "ReplicaFailure", "status": "True"}]

    status = rollout.rollout_status(rolling(2, 1), [other, broken], broken, NOW)
    (found,) = (item for item in status["conditions"] if item["type"] == "ReplicaFailure")
    assert (found["reason"], found["message"], found["lastUpdateTime"]) == ("FailedCreate", "m", time)
    assert found["lastTransitionTime"] == time
    status = rollout.rollout_status(rolling(2, 1), [other], None, NOW)
    (found,) = (item for item in status["conditions"] if item["type"] == "ReplicaFailure")
    assert (found["reason"], found["message"]) == ("", "")
    recovered = {**rolling(2, 1), "status": status}
    status = rollout.rollout_status(recovered, [{"metadata": {"name": "n"}, "spec": {}}], None, NOW)
    assert [item["type"] for item in status["conditions"]] == ["Available"]


def test_rollout_is_complete_when_pods_are_current_and_available() -> None:
    full = {"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3}
    deployment = rolling(3)
    deployment["metadata"]["generation"] = 2
    assert rollout.is_complete(deployment, full)
    for change in ({"observedGeneration": 1}, {"replicas": 4}, {"updatedReplicas": 2}, {"availableReplicas": None}):
        assert not rollout.is_complete(deployment, {**full, **change}), change
    assert rollout.is_complete({"metadata": {}, "spec": {}}, {})


def test_time_left_until_the_deadline() -> None:
    same = {"replicas": 2, "updatedReplicas": 2}
    for title, spec, status, expected in (
        ("active", DEADLINE, {**same, "conditions": [progressing("ReplicaSetUpdated", seconds_ago=100)]}, 500),
        ("no condition", DEADLINE, same, None),
        ("no status", DEADLINE, None, None),
        ("no deadline", {}, {"conditions": [progressing("ReplicaSetUpdated")]}, None),
        ("timed out", DEADLINE, {"conditions": [progressing("ProgressDeadlineExceeded", "False")]}, None),
        ("paused", DEADLINE, {"conditions": [progressing("DeploymentPaused", "Unknown")]}, None),
        ("a pod failed after the rollout", DEADLINE, {"conditions": [progressing("NewReplicaSetAvailable")]}, None),
        ("no time", DEADLINE, {"conditions": [progressing("x") | {"lastUpdateTime": None}]}, None),
        (
            "complete",
            DEADLINE,
            {**same, "availableReplicas": 2, "conditions": [progressing("NewReplicaSetAvailable")]},
            None,
        ),
    ):
        assert rollout.seconds_left({**rolling(2, **spec), "status": status}, NOW) == expected, title
