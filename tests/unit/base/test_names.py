"""Tests for the syntax of names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nodeagent.base import names


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
        (names.label_problems, "٣", 1),
        (names.subdomain_problems, "a" * 254, 1),
        (names.subdomain_problems, "node-1.example.com", 0),
        (names.wildcard_problems, "*.example.com", 0),
        (names.qualified_name_problems, "example.com/gpu", 0),
        (names.qualified_name_problems, "/gpu", 1),
        (names.qualified_name_problems, "a/b/c", 1),
        (names.label_value_problems, "", 0),
        (names.label_value_problems, "a" * 64, 1),
    ],
)
def test_names_by_rule(problems_of: Callable[[str], list[str]], value: str, count: int) -> None:
    assert len(problems_of(value)) == count


def test_subdomain_as_label_reports_the_dots() -> None:
    assert names.label_problems("a.b") == ["must not contain dots"]


@pytest.mark.parametrize(("name", "is_valid"), [("name", True), ("a/name", True), ("A/name", False), ("/name", False)])
def test_qualified_name_has_an_optional_subdomain(name: str, is_valid: bool) -> None:
    assert (not names.qualified_name_problems(name)) is is_valid


@pytest.mark.parametrize(("length", "is_valid"), [(253, True), (254, False)])
def test_prefix_of_a_qualified_name_has_at_most_253_characters(length: int, is_valid: bool) -> None:
    prefix = ".".join(["a" * 61, "b" * 61, "c" * 61, "d" * (length - 3 * 62)])

    assert (not names.qualified_name_problems(f"{prefix}/name")) is is_valid
