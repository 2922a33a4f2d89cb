"""Tests for patterns of images without verification of pull credentials."""

from __future__ import annotations

import pytest

from nodeagent.model.image_allowlist import is_listed, pattern_problem, without_tag

DIGEST = f"sha256:{'0' * 64}"


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("busybox", "busybox"),
        ("busybox:1", "busybox"),
        ("reg.test:5000/a/b", "reg.test:5000/a/b"),
        ("reg.test:5000/a/b:1", "reg.test:5000/a/b"),
        (f"reg.test/a:1@{DIGEST}", "reg.test/a"),
        (f"reg.test/a@{DIGEST}", "reg.test/a"),
    ],
)
def test_name_has_neither_tag_nor_digest(image: str, name: str) -> None:
    assert without_tag(image) == name


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("busybox", ""),
        ("reg.test:5000/a", ""),
        ("reg.test/*", ""),
        ("reg.test/team/*", ""),
        ("", "must not be empty"),
        ("/*", "must have a registry host before '/*'"),
        (" a", "must not start or end with white space"),
        ("a:1", "must have neither tag nor digest"),
        (f"a@{DIGEST}", "must have neither tag nor digest"),
        ("*", "must have '*' only in '/*' at the end"),
        ("a*", "must have '*' only in '/*' at the end"),
        ("*.test/*", "must have '*' only in '/*' at the end"),
        ("UPPER/case/B", "is not an image name: it must have a repository name in lower case"),
    ],
)
def test_pattern_is_checked(pattern: str, problem: str) -> None:
    assert pattern_problem(pattern) == problem


@pytest.mark.parametrize(
    ("image", "listed"),
    [
        ("reg.test/app:1", True),
        ("reg.test/app", True),
        ("reg.test/apps", False),
        ("team.test/a/b:2", True),
        ("team.test.evil/a", False),
        ("docker.io/library/busybox", False),
        ("busybox:1", True),
        ("not an image", False),
    ],
)
def test_image_is_compared_as_written(image: str, listed: bool) -> None:
    assert is_listed(image, ("reg.test/app", "team.test/*", "busybox")) is listed
