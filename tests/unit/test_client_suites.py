"""Tests for the runner of client test suites: comparison of outcomes."""

from __future__ import annotations

from tests.client_suites.__main__ import failing_with_both, regressions


def test_tests_that_pass_with_kube_apiserver_have_to_pass() -> None:
    theirs = dict.fromkeys(("same", "fails", "skipped", "missing"), "passed")
    ours = {"same": "passed", "fails": "failed", "skipped": "skipped"}

    assert regressions(ours, theirs) == ["fails", "missing", "skipped"]


def test_tests_that_fail_with_kube_apiserver_may_fail() -> None:
    theirs = {"known": "failed", "fixed": "failed", "optional": "skipped"}
    ours = {"known": "failed", "fixed": "passed", "optional": "failed", "unlisted": "failed"}

    assert regressions(ours, theirs) == ["optional", "unlisted"]


def test_tests_that_pass_here_only_are_not_recorded_as_failing() -> None:
    theirs = {"both": "failed", "here": "failed", "passes": "passed"}
    ours = {"both": "failed", "here": "passed", "passes": "passed"}

    assert failing_with_both(ours, theirs) == {"both"}
