"""Tests for the features that CRI does not report."""

from __future__ import annotations

import pytest

from nodeagent.contracts.runtime import RuntimeVersion
from nodeagent_plugins.cri.known_features import supports_image_volumes


@pytest.mark.parametrize(
    ("name", "version", "expected"),
    [
        ("containerd", "1.6.20~ds1", False),
        ("containerd", "1.7.24", False),
        ("containerd", "v2.0.5", False),
        ("containerd", "v2.1.0", True),
        ("containerd", "2.2.1~rc.0", True),
        ("cri-o", "1.30.4", False),
        ("cri-o", "1.31.0", True),
        ("nodeagent-embedded", "0.1.0", True),
        ("other", "9.9", False),
        ("containerd", "unknown", False),
    ],
)
def test_image_volumes_depend_on_name_and_version(name, version, expected):
    assert supports_image_volumes(RuntimeVersion(name, version, "v1")) is expected
