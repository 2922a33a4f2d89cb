"""Tests for the specification coverage report."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.conftest import Rows


def item(test, *rows, marker="row"):
    return SimpleNamespace(
        nodeid=test, iter_markers=lambda name: [SimpleNamespace(args=rows)] if name == marker else []
    )


def report(test, *, passed=True, when="call", skipped=False):
    return SimpleNamespace(nodeid=test, when=when, passed=passed and not skipped, failed=not passed, skipped=skipped)


@pytest.fixture
def rows():
    return Rows()


def test_row_is_covered_by_its_passed_tests(rows):
    rows.pytest_collection_modifyitems([item("a", "config.maxPods"), item("b", "config.maxPods", "card.cri")])
    rows.pytest_runtest_logreport(report("a"))
    rows.pytest_runtest_logreport(report("b"))

    assert rows.covered == {"card.cri": ["b"], "config.maxPods": ["a", "b"]}


def test_row_with_a_failed_test_is_not_covered(rows):
    rows.pytest_collection_modifyitems([item("a", "config.maxPods"), item("b", "config.maxPods")])
    rows.pytest_runtest_logreport(report("a"))
    rows.pytest_runtest_logreport(report("b"))
    rows.pytest_runtest_logreport(report("b", passed=False, when="teardown"))

    assert rows.covered == {}


def test_row_with_only_skipped_tests_is_not_covered(rows):
    rows.pytest_collection_modifyitems([item("a", "config.maxPods")])
    rows.pytest_runtest_logreport(report("a", when="setup"))
    rows.pytest_runtest_logreport(report("a", skipped=True))

    assert rows.covered == {}


def test_unknown_row_is_an_error(rows):
    with pytest.raises(pytest.UsageError, match=r"config\.maxPod$"):
        rows.pytest_collection_modifyitems([item("a", "config.maxPod")])


def test_all_rows_of_the_specification_are_loaded(rows):
    assert len(rows.known) == len(set(rows.known)) == 602


def test_row_that_does_not_apply_is_listed_unless_it_is_covered(rows):
    listed = item("a", "gate.WinDSR", "gate.NodeSwap", marker="listed_row")
    rows.pytest_collection_modifyitems([listed, item("b", "gate.NodeSwap")])
    rows.pytest_runtest_logreport(report("a"))
    rows.pytest_runtest_logreport(report("b"))

    assert rows.covered == {"gate.NodeSwap": ["b"]}
    assert rows.listed == ["gate.WinDSR"]
