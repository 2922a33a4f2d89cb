"""Tests for the selection of controllers by their names."""

from __future__ import annotations

import pytest

from apiserver_stub.controllers.names import is_enabled


@pytest.mark.parametrize(
    ("chosen", "by_default", "enabled"),
    [
        (["*"], True, True),
        (["*"], False, False),
        ([], True, False),
        (["job"], False, True),
        (["old-job"], False, True),
        (["other"], True, False),
        (["*", "-job"], True, False),
        (["*", "-old-job"], True, False),
        (["*", "-other"], True, True),
        (["-other", "*"], True, True),
        (["-job", "job"], True, False),
        (["job", "-job"], True, True),
        (["xjob", "*"], True, True),
    ],
)
def test_first_entry_for_a_controller_takes_effect(chosen: list[str], by_default: bool, enabled: bool) -> None:
    assert is_enabled(chosen, "job", "old-job", by_default=by_default) is enabled
