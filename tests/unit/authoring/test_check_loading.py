"""Tests for findings about the import of a plugin, without a process."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent.authoring import check_loading as module
from nodeagent.authoring.check_loading import check_loading
from nodeagent.authoring.findings import Finding, Rule

FILE = Path("/plugin.py")


@pytest.fixture
def check(monkeypatch):
    """Return a function that returns the findings for results of runs, and the number of runs."""

    def run(*results, source=()):
        left = list(results)
        monkeypatch.setattr(module, "_load", lambda *_arguments: left.pop(0))
        found = list(check_loading("p", "plugin", FILE, [], slow_seconds=1.0, source_findings=source))
        return [(each.rule, each.line) for each in found], len(results) - len(left)

    return run


@pytest.mark.parametrize(
    ("seconds", "rules", "runs"),
    [
        ([1.0], [], 1),
        ([1.1, 0.5], [], 2),
        ([1.1, 1.2, 0.9], [], 3),
        ([1.1, 1.2, 1.3], [(Rule.SLOW_IMPORT, 1)], 3),
    ],
)
def test_import_is_slow_if_each_run_is(check, seconds, rules, runs):
    assert check(*({"seconds": each} for each in seconds)) == (rules, runs)


def test_failed_import_is_found_at_its_line_in_the_file(check):
    trace = [("/plugin.py", 3), ("/plugin.py", 7), ("/other.py", 9)]
    assert check({"error": "x", "trace": trace}) == ([(Rule.IMPORT_FAILS, 7)], 1)
    assert check({"error": "x"}) == ([(Rule.IMPORT_FAILS, 1)], 1)


@pytest.mark.parametrize(
    ("rule", "is_found"),
    [(None, True), (Rule.SLOW_IMPORT, True), (Rule.UNKNOWN_HOOK, False), (Rule.ARGUMENT, False), (Rule.ASYNC, False)],
)
def test_rejection_is_found_unless_the_source_explains_it(check, rule, is_found):
    source = [Finding(FILE, 1, rule, "text")] if rule else []
    found, _ = check({"seconds": 0.1, "rejected": "x"}, source=source)
    assert found == ([(Rule.REJECTED, 1)] if is_found else [])


def test_schema_and_deprecated_uses_are_found(check):
    result = {"seconds": 0.1, "schema": "x", "deprecated": [("/other.py", 4, "text")]}
    assert check(result)[0] == [(Rule.SETTINGS_SCHEMA, 1), (Rule.DEPRECATED, 4)]
