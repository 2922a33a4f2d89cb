"""Tests for Kubernetes releases and the version that the node reports."""

from __future__ import annotations

import pytest

from nodeagent import __version__
from nodeagent.base.release import NEWEST, OLDEST, Release, ReleaseOrigin, SelectedRelease


@pytest.mark.parametrize("text", ["1.36", "v1.36", "v1.36.2", "1.36+", "v1.36.2-rc.0", "v1.36.2+k3s1", " 1.36 "])
def test_release_is_parsed(text):
    assert Release.parse(text) == Release(1, 36)


@pytest.mark.parametrize("text", ["", "1", "1.x", "v1.36.2.1", "one", "1.36 or so", "1.٣"])
def test_text_without_a_release_is_rejected(text):
    with pytest.raises(ValueError, match="must be a release"):
        Release.parse(text)


def test_releases_are_ordered_by_number():
    assert Release.parse("1.9") < Release.parse("1.10") < Release.parse("2.0")
    assert str(Release.parse("v1.36.2")) == "1.36"
    assert Release(1, 36).previous == Release(1, 35)


def test_unsupported_release_is_bounded():
    assert Release(1, 12).bounded() == OLDEST
    assert Release(1, 99).bounded() == NEWEST
    assert Release(1, 33).bounded() == Release(1, 33)


def test_node_version_is_that_of_the_api_server():
    selected = SelectedRelease(Release(1, 36), ReleaseOrigin.API_SERVER, "v1.36.7+vendor.1")

    assert selected.node_version == f"v1.36.7+nodeagent-{__version__}"


@pytest.mark.parametrize("server", ["", "v1.37.1", "v1.36"])
def test_node_version_is_a_known_one_of_the_release(server):
    selected = SelectedRelease(Release(1, 36), ReleaseOrigin.API_SERVER, server)

    assert selected.node_version == f"v1.36.2+nodeagent-{__version__}"


def test_every_supported_release_has_a_version():
    for minor in range(OLDEST.minor, NEWEST.minor + 1):
        assert SelectedRelease(Release(1, minor)).patch_version.startswith(f"v1.{minor}.")


@pytest.mark.parametrize("origin", list(ReleaseOrigin))
def test_release_is_assumed_only_by_its_origin(origin):
    assert SelectedRelease(OLDEST, origin).assumed is (origin is ReleaseOrigin.ASSUMED)
