"""Tests for the pages flagz and statusz: uptime, and warnings about deprecated versions."""

from __future__ import annotations

import pytest

from nodeagent.base.component_pages.negotiation import JSON, ObjectVersion, Representation
from nodeagent.base.component_pages.pages import deprecation_of
from nodeagent.base.release import Release


@pytest.mark.parametrize(
    ("version", "release", "deprecated"),
    [
        (None, "1.36", False),
        (ObjectVersion.V1ALPHA1, "1.35", False),
        (ObjectVersion.V1ALPHA1, "1.36", True),
        (ObjectVersion.V1BETA1, "1.36", False),
    ],
)
def test_first_version_is_deprecated_since_the_second_one(
    version: ObjectVersion | None, release: str, deprecated: bool
) -> None:
    warning = deprecation_of({"kind": "Statusz"}, Representation(JSON, version), Release.parse(release))

    assert ("version of the statusz endpoint is deprecated" in warning) == deprecated
    assert bool(warning) == deprecated
