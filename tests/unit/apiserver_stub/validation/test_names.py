"""Tests for the rules of names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from apiserver_stub.validation import names


@pytest.mark.parametrize(
    ("problems_of", "value", "count"),
    [
        (names.port_name_problems, "http", 0),
        (names.port_name_problems, "80", 1),
        (names.port_name_problems, "a" * 16, 1),
        (names.port_name_problems, "Bad--", 3),
        (names.port_name_problems, "", 2),
        (names.variable_name_problems, "_A.b-1", 0),
        (names.variable_name_problems, "1A", 1),
        (names.variable_name_problems, "..a", 1),
        (names.config_key_problems, "ca.crt", 0),
        (names.config_key_problems, "a/b", 1),
        (names.config_key_problems, "a" * 254, 1),
        (names.header_name_problems, "X-Probe", 0),
        (names.header_name_problems, "X Probe", 1),
        (names.label_problems, "a.b", 1),
    ],
)
def test_names_by_rule(problems_of: Callable[[str], list[str]], value: str, count: int) -> None:
    assert len(problems_of(value)) == count


def test_subdomain_as_label_reports_the_dots() -> None:
    assert names.label_problems("a.b") == ["must not contain dots"]


@pytest.mark.parametrize(("prefix", "valid"), [("web-", True), ("web", True), (".a-", False), ("Web-", False)])
def test_base_of_generated_names_may_end_in_a_dash(prefix: str, valid: bool) -> None:
    assert (not names.prefix_problems(prefix, names.subdomain_problems)) is valid


def test_base_of_path_segments_may_be_dots() -> None:
    assert names.prefix_problems("..", names.path_problems) == []
    assert names.prefix_problems("a/-", names.path_problems) == ["may not contain '/'"]
