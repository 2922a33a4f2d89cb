"""Tests for the expansion of variable references."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeagent.model.expansion import expand, unknown_references


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("$(A)", "1"),
        ("x$(A)y$(B)", "x1y2"),
        ("$(NOPE)", "$(NOPE)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A ${A} $", "$A ${A} $"),
        ("$(A", "$(A"),
    ],
)
def test_expansion(text, expected):
    assert expand(text, {"A": "1", "B": "2"}) == expected


@given(st.text())
def test_text_without_dollar_is_unchanged(text):
    assert expand(text.replace("$", ""), {"A": "1"}) == text.replace("$", "")


def test_unknown_names_are_reported():
    assert unknown_references("$(A)/$(B)/$$(C)", {"A": ""}) == ["B"]
