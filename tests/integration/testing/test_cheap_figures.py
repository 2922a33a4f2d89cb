"""Comparison of figures that do not depend on the speed of the host with the committed ones."""

from __future__ import annotations

import pytest

from benchmarks.cheap_figures import increases, measure, recorded

pytestmark = pytest.mark.integration


def test_agent_needs_not_much_more_than_recorded() -> None:
    problems = increases(measure(), recorded())

    assert not problems, "\n".join(problems)


def test_increase_beyond_the_tolerance_names_figure_and_command() -> None:
    assert increases({"modules": 110, "rss_mib": 10}, {"modules": 100, "rss_mib": 10}) == []
    (problem,) = increases({"modules": 111, "rss_mib": 10}, {"modules": 100, "rss_mib": 10})
    assert problem.startswith("modules: 111, recorded 100") and "benchmarks.cheap_figures --update" in problem
