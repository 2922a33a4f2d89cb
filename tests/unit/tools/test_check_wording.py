"""Tests for ``tools/check_wording.py``: findings and accepted wording of each rule, and totals."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

MODULE = '''"""Module of a test."""

from __future__ import annotations

import logging

_log = logging.getLogger(__name__)
'''


def load():
    spec = importlib.util.spec_from_file_location("check_wording", ROOT / "tools" / "check_wording.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["check_wording"] = module
    spec.loader.exec_module(module)
    return module


tool = load()
rules = tool.Rules.load(ROOT)


def findings(text, path="nodeagent/module.py"):
    return [(f.line, f.rule, f.found) for f in tool.Source(path, text, rules).check()]


def check_lines(*lines, path="nodeagent/module.py"):
    """Return the findings in *lines* below a module without any; lines are counted from 1."""
    offset = MODULE.count("\n")
    return [(line - offset, rule, found) for line, rule, found in findings(MODULE + "\n".join(lines) + "\n", path)]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("x = 1  # deleted meanwhile", "meanwhile"),
        ('x = "the image is of no use"', "of no use"),
        ('x = f"the image {told} is of no use"', "of no use"),
        ('"""Return the pods, of which nobody is told."""', "nobody"),
        ('x = "a process of its own"', "of its own"),
        ('raise ValueError("a is no object")', "is no"),
        ("# one worker a pod", "one worker a pod"),
    ],
)
def test_banned_phrase_is_found_in_comments_and_strings(line, found):
    assert (1, "everywhere", found) in check_lines(line)


@pytest.mark.parametrize(
    "line",
    [
        "x = y.be_had",
        'x = "meanwhile"',
        "x = 1  # there is no object",
        "x = 1  # is no longer used",
        "x = RESOLVE_BENEATH",
        'raise ValueError("refuse to start")',
        'x = "dial tcp: connection refused, retrying"',
        "x = 1  # ``of its own`` is literal",
    ],
)
def test_code_keys_and_terms_of_kubernetes_are_accepted(line):
    assert check_lines(line) == []


def test_phrase_is_found_across_lines_of_a_comment():
    assert check_lines("# a process of", "# its own") == [(1, "everywhere", "of its own")]


def test_phrase_is_not_found_across_code():
    assert check_lines("a = [  # a process of", '    "its own list"]') == []


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        (['"""Text."""', '"""Whether it runs."""'], 2),
        (["class A:", '    """What runs."""'], 2),
        (["def f():", '    """Tells it."""'], 2),
        (["class A:", "    x: int", '    """How often it runs."""'], 3),
    ],
)
def test_docstring_start_is_checked_for_every_kind_of_docstring(lines, line):
    assert (line, "docstring_start") in [finding[:2] for finding in check_lines(*lines)]


@pytest.mark.parametrize(
    "call",
    [
        '_log.warning("Image cannot be pulled")',
        '_log.info("pod started")',
        '_log.info("Pod started.")',
        '_log.info("The pod started")',
        "_log.info(message)",
        '_log.info(f"Pod {name} started")',
        '_log.log(level, "Configuration stays active")',
        'self.log.error("Pod started" if x else "Some pods started")',
        'logging.info("Trying to pull, trying again")',
    ],
)
def test_log_message_breaks_the_pattern(call):
    assert [finding[1] for finding in check_lines(call)] == ["log"]


@pytest.mark.parametrize(
    "call",
    [
        '_log.info("Pod started", extra={"pod": name})',
        '_log.error("Failed to pull image", extra={"err": error})',
        '_log.error("Failed to start" if starting else "Failed to stop")',
        '_log.error("Could not process manifest file")',
        '_log.info("Initialized iptables rules.")',
        '_log.error("orphaned pod found, but the volume paths are still present")',
        'math.log("not a message")',
        'catalog.info("not a message")',
    ],
)
def test_log_message_follows_the_pattern_or_upstream(call):
    assert check_lines(call) == []


@pytest.mark.parametrize("text", ["How often it runs.", "Whether it runs.", "What it is."])
def test_description_starts_like_a_docstring(text):
    assert check_lines(f'x = {{"description": "{text}"}}') == [
        (1, "docstring_start", f'text starts with "{text.split()[0]}"')
    ]


def test_names_of_tests_are_limited():
    long = f"test_{'x' * 66}"
    lines = [
        f"def {long}(): ...",
        "def test_what_a_pod_does(): ...",
        "def test_pod_is_told(): ...",
        "def test_pod(): ...",
    ]

    found = check_lines(*lines, path="tests/unit/test_module.py")

    assert [finding[:2] for finding in found] == [(1, "test_name"), (2, "test_name"), (3, "test_name")]


@pytest.mark.parametrize(
    "line", ["told = 1", "def ask(): ...", "class PodPicture: ...", "self.wanted = 1", "lambda place: 1"]
)
def test_banned_name_is_found_where_it_is_defined(line):
    assert [finding[1] for finding in check_lines(line)] == ["identifier"]


def test_module_name_is_checked():
    assert findings(MODULE, "nodeagent/places.py") == [(1, "identifier", "module places")]


def test_string_literals_of_tests_are_data():
    lines = ['x = "an image of no use"', "y = 1  # an image of no use"]

    assert check_lines(*lines, path="tests/unit/test_module.py") == [(2, "everywhere", "of no use")]


def test_marker_accepts_its_line_or_the_string_that_ends_there():
    lines = ['x = "no good at all"  # wording: ok', 'y = """', "no good at all", '"""  # wording: ok', "told = 1"]

    assert check_lines(*lines) == [(5, "identifier", "name told")]


def test_markdown_is_checked_without_code():
    text = "Nobody is here.\n\n```sh\necho of its own\n```\n\nUse `anew`.\nA pod\n\nshall run. <!-- wording: ok -->\n"

    assert findings(text, "docs/page.md") == [(1, "everywhere", "Nobody")]


def test_counts_are_grouped_by_package_and_rule():
    found = [
        tool.Finding("nodeagent/cli/a.py", 1, "log", "a", "b"),
        tool.Finding("nodeagent/cli/b.py", 1, "log", "a", "b"),
        tool.Finding("docs/a.md", 1, "everywhere", "a", "b"),
    ]

    lines = {line.split()[0]: line.split()[1:] for line in tool.counts(found).splitlines()[1:]}

    assert lines["nodeagent/cli"] == ["0", "0", "2", "0", "0", "2"]
    assert lines["docs"] == ["1", "0", "0", "0", "0", "1"]
    assert lines["total"] == ["1", "0", "2", "0", "0", "3"]
