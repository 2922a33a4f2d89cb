"""Tests for the pull policy of images."""

from __future__ import annotations

import pytest

from apiserver_stub.defaulting.images import image_pull_policy


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("busybox:1", "IfNotPresent"),
        ("host:5000/busybox", "Always"),
        ("host:5000/busybox:1", "IfNotPresent"),
        ("host.example/Busybox", "IfNotPresent"),
        ("Busybox", "IfNotPresent"),
        (" busybox", "IfNotPresent"),
        ("", "IfNotPresent"),
        ("a//b", "IfNotPresent"),
        ("-a", "IfNotPresent"),
        ("a" * 64, "IfNotPresent"),
        ("A/busybox", "Always"),
        ("busybox@sha256:" + "0" * 64, "IfNotPresent"),
        ("busybox:latest@sha256:" + "0" * 64, "Always"),
        ("busybox:latest@sha256:00", "IfNotPresent"),
    ],
)
def test_policy_by_tag(image: str, policy: str) -> None:
    assert image_pull_policy(image) == policy
