"""Tests for the specification coverage report."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.conftest import Rows


def item(test, *rows, marker="row"):
    return SimpleNamespace(
        nodeid=test, iter_markers=lambda name: [SimpleNamespace(args=rows)] if name == marker else []
    )


def report(test, *rows, listed=(), passed=True, when="call", skipped=False):
    return SimpleNamespace(
        nodeid=test,
        row=rows,
        listed_row=listed,
        when=when,
        passed=passed and not skipped,
        failed=not passed,
        skipped=skipped,
    )


@pytest.fixture
def rows():
    return Rows()


def test_report_has_the_rows_of_the_test(rows):
    made = SimpleNamespace()
    steps = rows.pytest_runtest_makereport(item("a", "config.maxPods", "card.cri"))
    next(steps)

    with pytest.raises(StopIteration):
        steps.send(made)

    assert (made.row, made.listed_row) == (["config.maxPods", "card.cri"], [])


def test_row_is_covered_by_its_passed_tests(rows):
    rows.pytest_runtest_logreport(report("a", "config.maxPods"))
    rows.pytest_runtest_logreport(report("b", "config.maxPods", "card.cri"))

    assert rows.covered == {"card.cri": ["b"], "config.maxPods": ["a", "b"]}


def test_row_with_a_failed_test_is_not_covered(rows):
    rows.pytest_runtest_logreport(report("a", "config.maxPods"))
    rows.pytest_runtest_logreport(report("b", "config.maxPods"))
    rows.pytest_runtest_logreport(report("b", "config.maxPods", passed=False, when="teardown"))

    assert rows.covered == {}


def test_row_with_only_skipped_tests_is_not_covered(rows):
    rows.pytest_runtest_logreport(report("a", "config.maxPods", when="setup"))
    rows.pytest_runtest_logreport(report("a", "config.maxPods", skipped=True))

    assert rows.covered == {}


def test_unknown_row_is_an_error(rows):
    with pytest.raises(pytest.UsageError, match=r"config\.maxPod$"):
        rows.pytest_collection_modifyitems([item("a", "config.maxPod")])


def test_all_rows_of_the_specification_are_loaded(rows):
    assert len(rows.known) == len(set(rows.known)) == 602


def test_row_that_does_not_apply_is_listed_unless_it_is_covered(rows):
    rows.pytest_runtest_logreport(report("a", listed=("gate.WinDSR", "gate.NodeSwap")))
    rows.pytest_runtest_logreport(report("b", "gate.NodeSwap"))

    assert rows.covered == {"gate.NodeSwap": ["b"]}
    assert rows.listed == ["gate.WinDSR"]
