"""Tests for surplus pods and the status of ReplicaSets."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.controllers.views import (
    Condition,
    ContainerStatus,
    Metadata,
    PodSpec,
    PodStatus,
    PodView,
)
from apiserver_stub.controllers.workloads.replicas import replica_status, surplus_pods

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
COST = "controller.kubernetes.io/pod-deletion-cost"
EARLY, LATE = "2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z"


def pod(
    name: str,
    node: str = "n",
    phase: str = "Running",
    ready: str | None = EARLY,
    restarts: int = 0,
    created: str | None = EARLY,
    **annotations: str,
) -> PodView:
    """Return a pod that is ready since *ready*; not ready if this is ``None``."""
    conditions = (Condition("Ready", "True", None, ready or None),) if ready is not None else ()
    statuses = (ContainerStatus(0), ContainerStatus(restarts))
    return PodView(
        Metadata(name, "default", labels={"app": "web"}, annotations=annotations, created_at=created),
        PodSpec(node),
        PodStatus(phase, conditions=conditions, container_statuses=statuses),
    )


def test_surplus_pods_are_the_least_useful_ones() -> None:
    for title, lost, kept in (
        ("no node", pod("l", "", "Running"), pod("k", "n", "Pending", None)),
        ("pending", pod("l", phase="Pending"), pod("k", phase="Unknown")),
        ("unknown", pod("l", phase="Unknown"), pod("k", phase="Running", ready=None)),
        ("no phase", pod("l", phase=""), pod("k", phase="Unknown")),
        ("not ready", pod("l", ready=None, **{COST: "9"}), pod("k", **{COST: "1"})),
        ("low cost of deletion", pod("l", restarts=0, **{COST: "-1"}), pod("k", restarts=9)),
        ("invalid cost", pod("l", **{COST: "x"}), pod("k", **{COST: "1"})),
        ("ready for a shorter time", pod("l", ready=LATE), pod("k", ready=EARLY, restarts=9)),
        ("more restarts", pod("l", restarts=2, created=EARLY), pod("k", restarts=1, created=LATE)),
        ("younger", pod("l", created=LATE), pod("k", created=EARLY)),
        ("ready at an unspecified time", pod("l", ready=LATE), pod("k", ready="", created=LATE)),
    ):
        for pods in ([lost, kept], [kept, lost]):
            assert surplus_pods(pods, [], 1, COST) == [lost], title
    crowded, single = pod("c", "full", ready=EARLY), pod("s", "n", ready=LATE)
    related = [crowded, single, pod("x", "full")]
    assert surplus_pods([single, crowded], related, 1, COST) == [crowded]
    assert surplus_pods([single, crowded], related, 2, COST) == [crowded, single]


def test_status_counts_pods_by_labels_readiness_and_availability() -> None:
    def owner(**spec: Any) -> Object:
        template = {"metadata": {"labels": {"app": "web"}}}
        return {
            "metadata": {},
            "spec": {"replicas": 2, "template": template, **spec},
            "status": {"observedGeneration": 3},
        }

    pods = [pod("a"), pod("b", ready=None), pod("c", ready="2026-01-01T11:59:30Z")]
    assert replica_status(owner(), pods, None, NOW) == {
        "replicas": 3,
        "fullyLabeledReplicas": 3,
        "readyReplicas": 2,
        "availableReplicas": 2,
        "observedGeneration": 3,
    }
    assert replica_status(owner(minReadySeconds=31), pods, None, NOW)["availableReplicas"] == 1
    assert replica_status(owner(minReadySeconds=30), pods, None, NOW)["availableReplicas"] == 2
    other = {"metadata": {"labels": {"app": "db"}}}
    assert "fullyLabeledReplicas" not in replica_status(owner(template=other), pods, None, NOW)
    assert replica_status({"metadata": {}, "spec": {}}, [], None, NOW) == {"replicas": 0}
    unlabeled = PodView(Metadata("x"))
    assert replica_status({"metadata": {}, "spec": {}}, [unlabeled], None, NOW)["fullyLabeledReplicas"] == 1
    assert "fullyLabeledReplicas" not in replica_status(owner(), [unlabeled], None, NOW)


def test_failure_to_create_or_delete_pods_is_a_condition() -> None:
    error = ApiError(403, "Forbidden", "exceeded quota")
    for desired, count, reason in ((2, 1, "FailedCreate"), (1, 2, "FailedDelete"), (None, 1, "FailedDelete")):
        owner = {"metadata": {}, "spec": {"replicas": desired}}
        (found,) = replica_status(owner, [pod("a")] * count, error, NOW)["conditions"]
        assert (found["reason"], found["message"]) == (reason, "exceeded quota"), desired
    known = [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "first"}, {"type": "X"}]
    owner = {"metadata": {}, "spec": {"replicas": 2}, "status": {"conditions": known}}
    assert replica_status(owner, [], error, NOW)["conditions"] == known
    assert replica_status(owner, [], None, NOW)["conditions"] == [{"type": "X"}]
