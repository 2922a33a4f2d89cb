"""Tests for the attributes of admission requests."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.apiserver_stub.admission.conftest import make_call


@pytest.mark.parametrize(
    ("new", "name", "target", "shown"),
    [
        ({"metadata": {"name": "a"}}, "", "a", "a"),
        ({"metadata": {"name": "a"}}, "url", "url", "url"),
        ({"metadata": {"generateName": "a-"}}, "", "", "a-"),
        ({"metadata": None}, "", "", "Unknown"),
        ({}, "", "", "Unknown"),
        (None, "", "", "Unknown"),
    ],
)
def test_object_is_named_by_the_url_or_by_its_metadata(new: Any, name: str, target: str, shown: str) -> None:
    call = make_call(new)
    call.name = name

    assert call.target == target
    assert call.forbidden("no").message == f'pods "{shown}" is forbidden: no'
