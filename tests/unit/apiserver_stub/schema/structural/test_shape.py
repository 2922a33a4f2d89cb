"""Tests for the shapes of structural schemas."""

from __future__ import annotations

import pytest

from apiserver_stub.schema.shapes import Form
from apiserver_stub.schema.structural.shape import shape_of
from apiserver_stub.schema.structural.tree import tree_of


@pytest.mark.parametrize(
    ("name", "form"), [("", Form.TEXT), ("byte", Form.TEXT), ("date-time", Form.INT_OR_TEXT), ("uri", Form.INT_OR_TEXT)]
)
def test_texts_with_a_format_have_no_type_in_server_side_apply(name: str, form: Form) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "format": name}}}

    assert shape_of(tree_of(schema), "Widget").members["a"].form is form
