"""Tests for the reported version of the runtime."""

from __future__ import annotations

import pytest

from nodeagent.node.runtime_version import reported_version


@pytest.mark.parametrize(
    ("version", "reported"),
    [
        ("1.6.20~ds1", "1.6.20"),
        ("1.7.24~ds1-6+b2", "1.7.24"),
        ("v2.1.3", "2.1.3"),
        ("1.34.0-rc.1+build.5", "1.34.0-rc.1+build.5"),
        ("1.7.2 (Debian)", "1.7.2"),
        ("1.30", "1.30"),
        ("unknown", "unknown"),
        ("", ""),
    ],
)
def test_version_of_a_package_is_reduced_to_its_numbers(version, reported):
    assert reported_version(version) == reported
