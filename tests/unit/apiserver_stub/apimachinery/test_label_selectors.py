"""Tests for label selectors in objects."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.apimachinery.label_selectors import format_labels, format_selector, read_selector

EXPRESSIONS = [
    {"key": "d", "operator": "DoesNotExist"},
    {"key": "c", "operator": "Exists"},
    {"key": "b", "operator": "NotIn", "values": ["y", "x"]},
    {"key": "a", "operator": "In", "values": ["y", "x"]},
]


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (None, ""),
        ({}, ""),
        ({"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2"),
        ({"matchExpressions": EXPRESSIONS}, "a in (x,y),b notin (x,y),c,!d"),
        ({"matchLabels": {"b": "1"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]}, "a,b=1"),
    ],
)
def test_selector_is_formatted_as_a_query(selector: Any, text: str) -> None:
    assert format_selector(selector) == text


@pytest.mark.parametrize(
    ("labels", "selected"),
    [
        ({"e": "1", "a": "x", "c": ""}, True),
        ({"e": "2", "a": "x", "c": ""}, False),
        ({"e": "1", "a": "z", "c": ""}, False),
        ({"e": "1", "a": "x", "b": "x", "c": ""}, False),
        ({"e": "1", "a": "x"}, False),
        ({"e": "1", "a": "x", "c": "", "d": ""}, False),
    ],
)
def test_all_requirements_are_met(labels: dict[str, str], *, selected: bool) -> None:
    selector = read_selector({"matchLabels": {"e": "1"}, "matchExpressions": EXPRESSIONS})

    assert selector.matches(labels) is selected
    assert read_selector(None).matches(labels)


def test_labels_are_sorted() -> None:
    assert (format_labels({"b": "2", "a": "1"}), format_labels(None)) == ("a=1,b=2", "")
