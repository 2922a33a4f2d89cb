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


@pytest.mark.parametrize(
    ("problems_of", "limit"),
    [
        (names.port_name_problems, 15),
        (names.config_key_problems, 253),
        (names.label_problems, 63),
        (names.service_name_problems, 63),
        (names.subdomain_problems, 253),
        (names.qualified_name_problems, 63),
        (names.label_value_problems, 63),
    ],
)
def test_length_is_limited(problems_of: Callable[[str], list[str]], limit: int) -> None:
    assert problems_of("a" * limit) == []
    assert f"no more than {limit} " in " ".join(problems_of("a" * (limit + 1)))


def test_length_of_a_wildcard_is_limited() -> None:
    assert names.wildcard_problems("*." + "a" * 251) == []
    assert names.wildcard_problems("*." + "a" * 252) == ["must be no more than 253 characters"]


def test_characters_outside_of_ascii_count_in_bytes() -> None:
    assert names.label_value_problems("é" * 31) == [names.VALUE_RULE]
    assert names.label_value_problems("é" * 32) == ["must be no more than 63 characters", names.VALUE_RULE]


@pytest.mark.parametrize(
    ("value", "problems"),
    [
        ("-a", ["must not begin or end with a hyphen"]),
        ("a-", ["must not begin or end with a hyphen"]),
        ("a--b", ["must not contain consecutive hyphens"]),
        ("12", ["must contain at least one letter (a-z)"]),
    ],
)
def test_port_name_reports_each_rule(value: str, problems: list[str]) -> None:
    assert names.port_name_problems(value) == problems


@pytest.mark.parametrize(
    ("value", "problem"), [(".", "must not be '.'"), ("..", "must not be '..'"), ("..a", "must not start with '..'")]
)
def test_names_of_parent_directories_are_invalid_keys(value: str, problem: str) -> None:
    assert names.config_key_problems(value) == [problem]
    assert names.config_key_problems(".a") == []


@pytest.mark.parametrize(
    ("value", "start"),
    [("/name", "prefix part must be non-empty"), ("a/", "name part must be non-empty"), ("A/n", "prefix part a low")],
)
def test_problem_of_a_qualified_name_is_that_of_its_part(value: str, start: str) -> None:
    assert names.qualified_name_problems(value)[0].startswith(start)
