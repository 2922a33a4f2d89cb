"""Tests for the distribution of tests over the processes of pytest-xdist."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.scheduling import ModuleScheduling

TESTS = ["a.py::one", "a.py::two", "b.py::one", "b.py::two", "c.py::one", "c.py::two", "d.py::one", "d.py::two"]


class Worker:
    """Worker that records the tests that are assigned to it."""

    gateway = SimpleNamespace(id="worker")

    def __init__(self) -> None:
        self.shutting_down = False
        self.assigned: list[str] = []

    def send_runtest_some(self, positions: list[int]) -> None:
        self.assigned += [TESTS[position] for position in positions]

    def shutdown(self) -> None:
        self.shutting_down = True


@pytest.fixture
def workers(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[Worker]]:
    """Scheduler of two workers, and these."""
    monkeypatch.setattr(pytestconfig.option, "tx", ["popen", "popen"], raising=False)
    monkeypatch.setattr(pytestconfig.option, "loadscopereorder", False, raising=False)
    scheduler: Any = ModuleScheduling(pytestconfig)
    both = [Worker(), Worker()]
    for worker in both:
        scheduler.add_node(worker)
        scheduler.add_node_collection(worker, TESTS)
    scheduler.schedule()
    return scheduler, both


def test_modules_are_run_completely_by_one_worker(workers: tuple[Any, list[Worker]]) -> None:
    scheduler, both = workers
    ran: list[tuple[int, str]] = []

    while not all(worker.shutting_down and not worker.assigned for worker in both):
        for number, worker in enumerate(both):
            if worker.assigned:
                ran.append((number, worker.assigned.pop(0)))
                scheduler.mark_test_complete(worker, TESTS.index(ran[-1][1]))

    assert sorted(test for _, test in ran) == TESTS
    assert len({(number, test.partition("::")[0]) for number, test in ran}) == 4
    assert not any(scheduler.assigned_work.values())  # what each further call would examine


def test_modules_of_a_crashed_worker_are_completed_by_another(workers: tuple[Any, list[Worker]]) -> None:
    scheduler, (first, _) = workers
    scheduler.mark_test_complete(first, TESTS.index(first.assigned.pop(0)))

    assert scheduler.remove_node(first) == "a.py::two"
    replacement = Worker()
    scheduler.add_node(replacement)
    scheduler.add_node_collection(replacement, TESTS)
    scheduler.schedule()
    scheduler.mark_test_complete(replacement, TESTS.index("a.py::two"))

    assert replacement.assigned == ["a.py::two", "c.py::one", "c.py::two"]
