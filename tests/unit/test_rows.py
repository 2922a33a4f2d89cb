"""A row counts as proven when a test passed that proves it, and none that does failed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.conftest import Rows


def item(test, *rows):
    return SimpleNamespace(nodeid=test, iter_markers=lambda name: [SimpleNamespace(args=rows)])


def report(test, *, passed=True, when="call", skipped=False):
    return SimpleNamespace(nodeid=test, when=when, passed=passed and not skipped, failed=not passed, skipped=skipped)


@pytest.fixture
def rows():
    return Rows()


def test_counts_a_row_with_the_tests_that_passed(rows):
    rows.pytest_collection_modifyitems([item("a", "config.maxPods"), item("b", "config.maxPods", "card.cri")])
    rows.pytest_runtest_logreport(report("a"))
    rows.pytest_runtest_logreport(report("b"))

    assert rows.proven == {"card.cri": ["b"], "config.maxPods": ["a", "b"]}


def test_leaves_out_a_row_of_which_one_test_failed(rows):
    rows.pytest_collection_modifyitems([item("a", "config.maxPods"), item("b", "config.maxPods")])
    rows.pytest_runtest_logreport(report("a"))
    rows.pytest_runtest_logreport(report("b"))
    rows.pytest_runtest_logreport(report("b", passed=False, when="teardown"))

    assert rows.proven == {}


def test_leaves_out_a_row_whose_test_was_skipped(rows):
    rows.pytest_collection_modifyitems([item("a", "config.maxPods")])
    rows.pytest_runtest_logreport(report("a", when="setup"))
    rows.pytest_runtest_logreport(report("a", skipped=True))

    assert rows.proven == {}


def test_refuses_a_row_that_the_specification_does_not_have(rows):
    with pytest.raises(pytest.UsageError, match=r"config\.maxPod$"):
        rows.pytest_collection_modifyitems([item("a", "config.maxPod")])


def test_knows_every_row_of_the_specification(rows):
    assert len(rows.known) == len(set(rows.known)) == 602
