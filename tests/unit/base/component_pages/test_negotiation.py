"""Tests for the content negotiation of flagz and statusz."""

from __future__ import annotations

import pytest

from nodeagent.base.component_pages.negotiation import JSON, YAML, ObjectVersion, Representation, negotiate

BETA = ObjectVersion.V1BETA1
ALL = tuple(ObjectVersion)
AS = ";g=config.k8s.io;as=Statusz"


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", Representation()),
        ("*/*", Representation()),
        ("text/plain", Representation()),
        ("text/html, */*;q=0.1", Representation()),
        (f"application/json;v=v1beta1{AS}", Representation(JSON, BETA)),
        (f"application/json;v=v1alpha1{AS}", Representation(JSON, ObjectVersion.V1ALPHA1)),
        (f"application/json;v=v1beta1{AS};pretty=1", Representation(JSON, BETA, pretty=True)),
        (f"application/yaml;v=v1beta1{AS}", Representation(YAML, BETA)),
        (f"application/*;v=v1beta1{AS}", Representation(JSON, BETA)),
        (f"application/json;v=v1{AS}, application/json;v=v1beta1{AS}", Representation(JSON, BETA)),
        (f"text/plain;q=0.5, application/json;v=v1beta1{AS}", Representation(JSON, BETA)),
        (f"text/plain, application/json;v=v1beta1{AS};q=0.9", Representation()),
        ("application/json, text/plain;q=0.5", Representation()),
    ],
)
def test_preferred_representation_is_chosen(accept, expected):
    assert negotiate(accept, "Statusz", ALL) == expected


@pytest.mark.parametrize(
    "accept",
    [
        "application/json",
        "text/html",
        f"text/plain;v=v1beta1{AS}",
        "text/plain;q=0",
        "text/plain;q=much",
        f"application/json;v=v2{AS}",
        "application/json;v=v1beta1;g=apps;as=Statusz",
        "application/json;v=v1beta1;g=config.k8s.io;as=Flagz",
        f"application/vnd.kubernetes.protobuf;v=v1beta1{AS}",
    ],
)
def test_unavailable_representation_is_not_acceptable(accept):
    assert negotiate(accept, "Statusz", ALL) is None


def test_version_of_a_later_release_is_not_acceptable():
    assert negotiate(f"application/json;v=v1beta1{AS}", "Statusz", [ObjectVersion.V1ALPHA1]) is None
    assert [str(version.since) for version in ALL] == ["1.35", "1.36"]
