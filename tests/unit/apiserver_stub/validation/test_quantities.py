"""Tests for the rules of resource names and amounts."""

from __future__ import annotations

import pytest

from apiserver_stub.validation import quantities


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("cpu", 0),
        ("hugepages-2Mi", 0),
        ("example.com/gpu", 0),
        ("kubernetes.io/batch-cpu", 0),
        ("pods", 1),
        ("abc", 2),
        ("requests.example.com/gpu", 1),
        ("a/b/c", 2),
    ],
)
def test_container_resource_names(name: str, count: int) -> None:
    assert len(quantities.validate_container_resource_name(name, "f", "kubernetes.io")) == count


@pytest.mark.parametrize(
    ("name", "text", "details"),
    [
        ("cpu", "1500m", []),
        ("cpu", "-1", ["must be greater than or equal to 0"]),
        ("example.com/gpu", "1500m", ["must be an integer"]),
        ("example.com/gpu", "-1500m", ["must be greater than or equal to 0", "must be an integer"]),
        ("pods", "1100m", ["must be an integer"]),
    ],
)
def test_amounts(name: str, text: str, details: list[str]) -> None:
    causes = quantities.validate_amount(name, text, "f", "kubernetes.io")

    assert [cause.message.rpartition(": ")[2] for cause in causes] == details


@pytest.mark.parametrize(
    ("name", "text", "whole"),
    [("hugepages-2Mi", "4Mi", True), ("hugepages-2Mi", "3Mi", False), ("hugepages-x", "1", False)],
)
def test_huge_pages_are_multiples_of_the_page_size(name: str, text: str, whole: bool) -> None:
    assert quantities.is_whole_pages(name, text) is whole
