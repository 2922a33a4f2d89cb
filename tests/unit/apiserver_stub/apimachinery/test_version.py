"""Tests for the version that the server reports."""

from __future__ import annotations

import pytest

from apiserver_stub.apimachinery.version import git_version, version
from nodeagent.base.release import OLDEST, Release


def test_version_is_that_of_the_release() -> None:
    assert git_version() == git_version(OLDEST) == "v1.29.1"
    assert git_version(Release(1, 36)).startswith("v1.36.")
    assert version(release=Release(1, 30))["gitVersion"].startswith("v1.30.")
    assert version("v1.30.9", Release(1, 30))["gitVersion"] == "v1.30.9"


@pytest.mark.parametrize(("minor", "expected"), [(32, None), (33, "32"), (36, "35")])
def test_compatibility_is_reported_since_1_33(minor: int, expected: str | None) -> None:
    found = version(release=Release(1, minor))

    assert (found["major"], found["minor"]) == ("1", str(minor))
    assert found.get("minCompatibilityMinor") == expected
    assert found.get("emulationMinor") == (None if expected is None else str(minor))
