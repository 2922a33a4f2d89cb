"""Tests for ports by number or name."""

from __future__ import annotations

import pytest

from nodeagent.model.pod import ContainerPort
from nodeagent.model.ports import port_number


@pytest.mark.parametrize(
    ("port", "number"), [(80, 80), ("80", 80), ("web", 8080), ("nope", None), ("²", None), ("", None)]
)
def test_port_number_by_name_or_number(port: int | str, number: int | None) -> None:
    assert port_number(port, [ContainerPort(container_port=8080, name="web")]) == number
    assert port_number(80, None) == 80
