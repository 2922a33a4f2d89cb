"""Tests for the validation of the volumes of a pod."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.validation.volumes import _validate_image


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"reference": "a:1"}, []),
        ({"reference": "a:1", "pullPolicy": "Never"}, []),
        ({}, [("FieldValueRequired", "v.reference")]),
        ({"reference": "a:1", "pullPolicy": "Sometimes"}, [("FieldValueNotSupported", "v.pullPolicy")]),
    ],
)
def test_image_volume_requires_a_reference_and_a_known_policy(
    source: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    assert [(cause.reason, cause.field) for cause in _validate_image(source, "v")] == expected
