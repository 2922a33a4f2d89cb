"""Tests for the numbers of replicas that metrics require."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from apiserver_stub.controllers.autoscaling.pod_groups import PodMetric, RequestMissing, group_pods, requested
from apiserver_stub.controllers.autoscaling.replicas import (
    NoReplicaCount,
    PodLoad,
    Tolerance,
    for_average,
    for_utilization,
    for_value,
    for_value_per_pod,
)
from apiserver_stub.controllers.views import Condition, Metadata, PodStatus, PodView

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
OLD = "2026-01-01T10:00:00Z"


def pod(name: str, *, ready: str = "True", phase: str = "Running", started: str = OLD, changed: str = OLD) -> PodView:
    condition = Condition("Ready", ready, None, changed)
    return PodView(Metadata(name, "default"), status=PodStatus(phase, conditions=(condition,), started_at=started))


def metrics(**values: int) -> dict[str, PodMetric]:
    return {name: PodMetric(value, NOW) for name, value in values.items()}


def utilization(
    used: Mapping[str, PodMetric], pods: Sequence[PodView], target: int = 50, current: int | None = None
) -> PodLoad:
    """Return the load for pods that request one CPU each."""
    return for_utilization(
        len(pods) if current is None else current,
        target,
        "cpu",
        used,
        pods,
        lambda found: {item.metadata.name: 1000 for item in found},
        Tolerance(),
        NOW,
    )


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        ({"a": 1000, "b": 1000}, 4),
        ({"a": 500, "b": 540}, 2),  # Within the tolerance.
        ({"a": 500, "b": 620}, 3),
        ({"a": 100, "b": 100}, 1),
        ({"a": 0, "b": 0}, 0),
    ],
)
def test_utilization_of_the_requests_determines_the_replicas(used: dict[str, int], expected: int) -> None:
    found = utilization(metrics(**used), [pod("a"), pod("b")])

    assert found == PodLoad(expected, sum(used.values()) // 2, sum(used.values()) * 100 // 2000)


def test_missing_pods_count_as_idle_when_others_require_more() -> None:
    pods = [pod("a"), pod("b"), pod("c")]
    assert utilization(metrics(a=1000, b=1000), pods).replicas == 4  # (1000 + 1000 + 0) / 3 is 66 %.
    assert utilization(metrics(a=560, b=560), pods).replicas == 3  # They would require fewer, so nothing changes.


def test_missing_pods_count_as_full_when_others_require_fewer() -> None:
    pods = [pod("a"), pod("b"), pod("c"), pod("d")]
    assert utilization(metrics(a=0, b=0, c=0), pods, target=90).replicas == 2
    assert utilization(metrics(a=100, b=100), pods).replicas == 4


def test_unready_pods_count_as_idle_when_others_require_more() -> None:
    pods = [pod("a"), pod("b", phase="Pending")]
    assert utilization(metrics(a=2000, b=0), pods).replicas == 4
    assert utilization(metrics(a=600), pods).replicas == 2

    assert utilization(metrics(a=1050), pods).replicas == 2  # The average is 52 %.


def test_missing_pods_have_no_effect_when_others_are_at_the_target() -> None:
    assert utilization(metrics(a=500), [pod("a"), pod("b")]).replicas == 2


@pytest.mark.parametrize(
    ("used", "target", "current"),
    [
        ({"a": 700, "b": 700}, 90, 1),  # 88 % of the target, but three pods.
        ({"a": 2000, "b": 2000}, 50, 10),  # 266 % of the target, but three pods.
    ],
)
def test_size_does_not_change_against_the_load(used: dict[str, int], target: int, current: int) -> None:
    pods = [pod("a"), pod("b"), pod("c")]
    assert utilization(metrics(**used), pods, target=target, current=current).replicas == current


SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("status", "started", "changed", "measured", "unready"),
    [
        ("True", 60, 30, 0, False),
        ("True", 60, 30, 15, False),
        ("True", 60, 30, 16, True),
        ("True", 299, 10, 0, True),
        ("True", 300, 10, 0, False),
        ("False", 60, 30, 0, True),
        ("False", 400, 370, 0, False),
        ("False", 400, 371, 0, True),
        ("True", 400, 10, 0, False),
    ],
)
def test_readiness_during_and_after_the_start(
    status: str, started: int, changed: int, measured: int, *, unready: bool
) -> None:
    """Ages in seconds; the usage is measured over 15 seconds."""
    start, change = ((NOW - age * SECOND).isoformat() for age in (started, changed))
    found = pod("a", ready=status, started=start, changed=change)
    usage = {"a": PodMetric(1, NOW - measured * SECOND, 15)}
    assert group_pods([found], usage, "cpu", NOW).unready == frozenset("a" if unready else "")
    assert group_pods([found], usage, "memory", NOW).ready == 1


def test_groups_of_pods() -> None:
    deleting = PodView(Metadata("deleting", "default", deleted_at=OLD), status=PodStatus("Running"))
    unknown = PodView(Metadata("unknown", "default"), status=PodStatus("Running", started_at=OLD))
    no_start = PodView(
        Metadata("no-start", "default"),
        status=PodStatus("Running", conditions=(Condition("Ready", "True", None, OLD),)),
    )
    no_change = PodView(
        Metadata("no-change", "default"),
        status=PodStatus("Running", conditions=(Condition("Ready", "True"),), started_at=OLD),
    )
    pods = [pod("a"), pod("pending", phase="Pending"), pod("failed", phase="Failed"), pod("missing")]
    pods += [deleting, unknown, no_start, no_change]
    values = {name: PodMetric(1, NOW) for name in ("a", "pending", "failed", "deleting", "unknown")}
    values |= {name: PodMetric(1, NOW) for name in ("no-start", "no-change")}

    found = group_pods(pods, values, "cpu", NOW)

    assert found.ready == 1
    assert found.unready == {"pending", "unknown", "no-start", "no-change"}
    assert found.missing == {"missing"}
    assert found.ignored == {"failed", "deleting"}


def test_cpu_of_a_pod_that_starts_does_not_count() -> None:
    started = (NOW - timedelta(minutes=1)).isoformat()
    starting = pod("b", ready="False", started=started, changed=started)
    assert utilization(metrics(a=500, b=5000), [pod("a"), starting]).replicas == 2
    never_ready = pod("b", ready="False")
    assert utilization(metrics(a=500, b=5000), [pod("a"), never_ready]).replicas == 2
    became_unready = pod("b", ready="False", changed="2026-01-01T11:00:00Z")
    assert utilization(metrics(a=500, b=1500), [pod("a"), became_unready]).replicas == 4


def test_failed_pods_do_not_count() -> None:
    assert utilization(metrics(a=1000, b=0), [pod("a"), pod("b", phase="Failed")]).replicas == 2


@pytest.mark.parametrize(
    ("pods", "used", "message"),
    [
        ([], {}, "no pods returned by selector while calculating replica count"),
        ([pod("a")], {}, "did not receive metrics for targeted pods (pods might be unready)"),
        ([pod("a")], {"other": 1}, "no metrics returned matched known pods"),
    ],
)
def test_pods_without_metrics_are_an_error(pods: list[PodView], used: dict[str, int], message: str) -> None:
    with pytest.raises(NoReplicaCount) as caught:
        utilization(metrics(**used), pods)
    assert str(caught.value) == message


def test_average_of_a_metric_determines_the_replicas() -> None:
    pods = [pod("a"), pod("b")]
    found = for_average(2, 10_000, "", metrics(a=20_000, b=30_000), pods, Tolerance(), NOW)
    assert found == PodLoad(5, 25_000)
    assert for_average(2, 10_000, "", metrics(a=10_400, b=10_400), pods, Tolerance(), NOW).replicas == 2
    assert for_average(2, 10_000, "", metrics(a=10_400, b=10_400), pods, Tolerance(up=0.01), NOW).replicas == 3


def test_value_for_all_pods_determines_the_replicas() -> None:
    assert for_value(3, 3, 2.0, Tolerance()) == 6
    assert for_value(3, 2, 2.0, Tolerance()) == 4
    assert for_value(3, 3, 1.05, Tolerance()) == 3
    assert [for_value(20, 20, ratio, Tolerance()) for ratio in (0.89, 0.9, 1.1, 1.11)] == [18, 20, 20, 23]
    assert for_value(0, 0, 2.5, Tolerance()) == 3
    assert for_value_per_pod(4, 45_000, 10_000, Tolerance()) == 5
    assert for_value_per_pod(4, 42_000, 10_000, Tolerance()) == 4
    assert for_value_per_pod(0, 0, 10_000, Tolerance()) == 0


def test_requests_of_a_pod_are_those_of_its_containers() -> None:
    def container(name: str, cpu: str | None, **more: str) -> dict[str, object]:
        return {"name": name, "resources": {"requests": {"cpu": cpu}} if cpu else {}, **more}

    spec = {
        "containers": [container("c", "250m"), container("d", "1")],
        "initContainers": [container("once", "4"), container("sidecar", "100m", restartPolicy="Always")],
    }
    obj = {"metadata": {"name": "p"}, "spec": spec}
    assert requested(obj, "cpu") == 1350
    assert requested(obj, "cpu", "c") == 250
    spec["containers"][1]["resources"] = {}
    with pytest.raises(RequestMissing, match="missing request for cpu in container d of Pod p"):
        requested(obj, "cpu")
    assert requested({**obj, "spec": {**spec, "resources": {"requests": {"cpu": "2"}}}}, "cpu") == 2000
