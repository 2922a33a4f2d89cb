"""Tests for the content of downward API volumes."""

from __future__ import annotations

import pytest

from nodeagent_plugins.volumes.downward import format_map


@pytest.mark.parametrize(
    ("value", "quoted"),
    [
        ("a b", '"a b"'),
        ('"\\', r'"\"\\"'),
        ("\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"'),
        ("\x00\x1f\x7f", r'"\x00\x1f\x7f"'),
        ("\x80\xa0\u2028\uffff", r'"\u0080\u00a0\u2028\uffff"'),
        ("\U000e0001\U0010ffff", r'"\U000e0001\U0010ffff"'),
        ("äö€😀", '"äö€😀"'),
    ],
)
def test_values_of_labels_and_annotations_are_quoted_as_in_go(value: str, quoted: str) -> None:
    assert format_map({"k": value}) == f"k={quoted}"


def test_entries_are_lines_sorted_by_key() -> None:
    assert format_map({"b": "2", "a": "1"}) == 'a="1"\nb="2"' and format_map({}) == ""
