"""Tests for the verification of hook results."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from nodeagent.contracts.background import BackgroundLoop
from nodeagent.contracts.pods import Rejection
from nodeagent.hook_results import validate_result


def one() -> Rejection | None: ...


def several() -> Sequence[Rejection]: ...


def loops() -> Sequence[BackgroundLoop]: ...


def nothing() -> None: ...


REJECTION = Rejection("Closed", "no")


@pytest.mark.parametrize(
    ("specification", "result"),
    [(one, None), (one, REJECTION), (several, [REJECTION]), (several, ()), (loops, [7]), (nothing, 7)],
)
def test_result_of_the_specified_class_has_no_problem(specification, result):
    assert validate_result(specification, result) == ""


@pytest.mark.parametrize(
    ("specification", "result", "problem"),
    [
        (one, 7, "returned 7, expected Rejection"),
        (one, [REJECTION], "expected Rejection"),
        (several, REJECTION, "expected a sequence of Rejection"),
        (several, "text", "returned 'text', expected a sequence of Rejection"),
        (several, b"text", "expected a sequence of Rejection"),
        (several, [REJECTION, 7], "returned 7, expected Rejection"),
        (loops, 7, "expected a sequence of BackgroundLoop"),
    ],
)
def test_other_results_are_described(specification, result, problem):
    assert problem in validate_result(specification, result)


@pytest.mark.parametrize("length", [78, 79])
def test_long_result_is_truncated(length):
    text = validate_result(one, "x" * length)
    assert ("…" in text) is (length == 79)
