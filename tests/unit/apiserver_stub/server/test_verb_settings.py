"""Tests for the settings of verbs: defaults of the release, and options."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.authz import Chain
from apiserver_stub.options import parse
from apiserver_stub.server.verb_settings import build_verbs, verb_settings


@pytest.mark.parametrize(
    ("release", "checks_versions", "times_out", "shows_null_times"),
    [
        ("1.29", False, False, True),
        ("1.32", False, False, True),
        ("1.33", True, False, True),
        ("1.34", True, True, False),
        ("1.35", True, True, False),
        ("1.36", True, True, False),
    ],
)
def test_lists_and_times_follow_the_release(
    release: str, checks_versions: bool, times_out: bool, shows_null_times: bool
) -> None:
    found = verb_settings(parse([f"--compatibility-version={release}"]))

    assert (found.checks_list_versions, found.times_out_future_lists) == (checks_versions, times_out)
    assert found.shows_null_times is shows_null_times


@pytest.mark.parametrize("enabled", [True, False])
def test_unsafe_deletions_need_a_gate(enabled: bool) -> None:
    options = parse([
        "--compatibility-version=1.36", f"--feature-gates=AllowUnsafeMalformedObjectDeletion={str(enabled).lower()}"
    ])  # fmt: skip
    storage: Any = SimpleNamespace(store=None, layout=None)

    assert (build_verbs(options, storage, storage, Chain([])).unsafe_deletions is not None) is enabled
