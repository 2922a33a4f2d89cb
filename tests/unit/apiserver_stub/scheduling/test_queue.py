"""Tests for the queue of pending pods."""

from __future__ import annotations

from apiserver_stub.scheduling.queue import FLUSH_SECONDS, PendingPods


def drained(queue: PendingPods, now: float) -> list[str]:
    """Remove all pods that are due from the queue and return them."""
    found = []
    while (key := queue.pop(now)) is not None:
        queue.remove(key)
        found.append(key)
    return found


def test_pods_are_ordered_by_priority_then_age() -> None:
    queue = PendingPods()
    queue.add("young", 0, "2024-01-02", 0)
    queue.add("old", 0, "2024-01-01", 0)
    queue.add("important", 100, "2024-01-03", 0)

    assert drained(queue, 0) == ["important", "old", "young"]


def test_removed_pods_are_dropped_though_none_is_tried() -> None:
    queue = PendingPods()
    queue.add("kept", 0, "2024-01-01", 0)
    for number in range(1000):
        queue.add(f"p{number}", 0, "2024-01-02", 0)
        queue.remove(f"p{number}")

    assert len(queue._active) < 100
    assert drained(queue, 0) == ["kept"]


def test_unschedulable_pod_waits_for_a_relevant_change() -> None:
    queue = PendingPods()
    queue.add("p", 0, "", 0)
    assert queue.pop(0) == "p"
    queue.park("p", ["NodeResourcesFit"], 0)

    assert queue.pop(100) is None
    queue.retry(100, ["InterPodAffinity"])
    assert queue.pop(100) is None
    queue.retry(100, ["NodeResourcesFit", "NodePorts"])
    assert queue.pop(100) == "p"


def test_back_off_grows_from_one_to_ten_seconds() -> None:
    queue, now, pauses = PendingPods(), 0.0, []
    queue.add("p", 0, "", now)
    for _ in range(7):
        assert queue.pop(now) == "p"
        queue.park("p", ["x"], now)
        queue.retry(now)
        assert queue.pop(now) is None
        due = queue.next_due(now)
        assert due is not None
        pauses.append(due)
        now += due

    assert pauses == [1, 2, 4, 8, 10, 10, 10]


def test_changed_pod_is_tried_after_its_back_off() -> None:
    queue = PendingPods()
    queue.add("p", 0, "", 0)
    queue.pop(0)
    queue.park("p", ["x"], 0)
    queue.add("p", 0, "", 0.5)

    assert queue.pop(0.5) is None
    assert queue.pop(1) == "p"


def test_unschedulable_pod_is_retried_after_a_long_time() -> None:
    queue = PendingPods()
    queue.add("p", 0, "", 0)
    queue.pop(0)
    queue.park("p", ["x"], 0)

    assert queue.next_due(0) == FLUSH_SECONDS
    assert queue.pop(FLUSH_SECONDS - 1) is None
    assert queue.pop(FLUSH_SECONDS) == "p"


def test_postponed_pod_is_retried_without_a_change() -> None:
    queue = PendingPods()
    queue.add("p", 0, "", 0)
    assert queue.pop(0) == "p"
    queue.postpone("p", 0)

    assert queue.pop(0.9) is None
    assert queue.pop(1) == "p"


def test_repeated_changes_queue_a_pod_once() -> None:
    queue = PendingPods()
    for now in range(100):
        queue.add("p", 0, "", now)
    assert queue.pop(100) == "p"
    assert queue.pop(100) is None


def test_removed_pod_is_not_tried() -> None:
    queue = PendingPods()
    queue.add("p", 0, "", 0)
    queue.remove("p")
    assert queue.pop(0) is None
    assert len(queue) == 0


def test_changed_priority_keeps_the_backoff() -> None:
    queue = PendingPods()
    queue.add("p", 0, "2024-01-01", 0)
    queue.add("q", 5, "2024-01-01", 0)
    assert queue.pop(0) == "q"
    queue.remove("q")
    queue.add("p", 0, "2024-01-01", 0)
    queue.add("r", 1, "2024-01-01", 0)
    queue.add("p", 2, "2024-01-01", 0)

    assert drained(queue, 0) == ["p", "r"]
