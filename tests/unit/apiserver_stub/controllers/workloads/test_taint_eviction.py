"""Tests for the time at which a pod is evicted because of taints."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from apiserver_stub.controllers.views import Metadata, PodSpec, PodView
from apiserver_stub.controllers.workloads.taint_eviction import eviction_time

NOW = datetime(2026, 1, 1, tzinfo=UTC)
A, B = ({"key": key, "effect": "NoExecute"} for key in "ab")


def test_first_matching_toleration_of_each_taint_decides() -> None:
    def tolerated(key: str, seconds: int | None = None) -> dict[str, object]:
        return {"key": key, "operator": "Exists", "tolerationSeconds": seconds}

    for title, taints, tolerations, expected in (
        ("not tolerated", [A], None, 0),
        ("another one is tolerated", [A], [tolerated("b")], 0),
        ("forever", [A], [tolerated("a")], None),
        ("for a time", [A], [tolerated("a", 60)], 60),
        ("for a negative time", [A], [tolerated("a", -1)], 0),
        ("forever by the first one", [A], [tolerated("a"), tolerated("a", 60)], None),
        ("for a time by the first one", [A], [tolerated("a", 60), tolerated("a", 30), tolerated("a")], 60),
        ("shortest time of all taints", [A, B], [tolerated("a", 60), tolerated("b", 30)], 30),
        ("one is tolerated forever", [A, B], [tolerated("a"), tolerated("b", 30)], 30),
        ("one is not tolerated", [A, B], [tolerated("a")], 0),
        ("no taints", [], None, None),
    ):
        pod = PodView(Metadata("p"), PodSpec("n", tolerations=tuple(tolerations) if tolerations else None))
        found = eviction_time(pod, taints, lambda taint: NOW)
        assert found == (None if expected is None else NOW + timedelta(seconds=expected)), title
