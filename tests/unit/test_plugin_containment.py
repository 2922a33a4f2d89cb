"""Tests for the limits of plugins in their settings file."""

from __future__ import annotations

import pytest

from nodeagent.plugin_containment import parse_containment


def parsed(**document):
    problems = []
    containment = parse_containment(document, ["a"], "plugins.yaml", problems)
    return containment, [(problem.path, problem.rule) for problem in problems]


def test_required_plugins_have_to_be_installed():
    assert parsed(requiredPlugins=["a"])[0].required == ("a",)
    assert parsed(requiredPlugins=["a", "b"])[1] == [("requiredPlugins[1]", "plugin is not installed")]
    assert parsed(requiredPlugins="a")[1] == [("requiredPlugins", "must be a list of plugin names")]


@pytest.mark.parametrize(("report", "interrupt", "valid"), [(2, 2, True), (2, 3, True), (2, 1, False), (2, 0, True)])
def test_stall_is_not_interrupted_before_it_is_reported(report, interrupt, valid):
    _, problems = parsed(stall={"reportSeconds": report, "interruptSeconds": interrupt})
    assert problems == ([] if valid else [("stall.interruptSeconds", "must not be less than reportSeconds, 2")])


@pytest.mark.parametrize(("retry", "longest", "valid"), [(10, 10, True), (10, 11, True), (11, 10, False)])
def test_longest_quarantine_is_not_less_than_the_first(retry, longest, valid):
    _, problems = parsed(quarantine={"retrySeconds": retry, "maxRetrySeconds": longest})
    assert problems == ([] if valid else [("quarantine.maxRetrySeconds", "must not be less than retrySeconds, 11")])
