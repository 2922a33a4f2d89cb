"""Tests for the names that only the API server validates."""

from __future__ import annotations

import pytest

from apiserver_stub.validation import names
from nodeagent.base.names import subdomain_problems


@pytest.mark.parametrize(("prefix", "valid"), [("web-", True), ("web", True), (".a-", False), ("Web-", False)])
def test_base_of_generated_names_may_end_in_a_dash(prefix: str, valid: bool) -> None:
    assert (not names.prefix_problems(prefix, subdomain_problems)) is valid


def test_base_of_path_segments_may_be_dots() -> None:
    assert names.prefix_problems("..", names.path_problems) == []
    assert names.prefix_problems("a/-", names.path_problems) == ["may not contain '/'"]
