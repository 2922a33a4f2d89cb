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


@pytest.mark.parametrize(
    ("prefix", "limit"),
    [
        ("", 255 - len("docker.io/library/")),
        ("library/", 255 - len("docker.io/")),
        ("localhost/", 255),
        ("host.example/", 255),
        ("host:5000/", 255),
        ("Host/", 255),
    ],
)
def test_name_is_limited_with_its_registry(prefix: str, limit: int) -> None:
    longest = prefix + "a" * (limit - len(prefix))

    assert image_pull_policy(longest) == "Always"
    assert image_pull_policy(longest + "a") == "IfNotPresent"


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("localhost/a", "Always"),
        ("localhost/Upper", "IfNotPresent"),
        ("-host.example/a", "IfNotPresent"),
        ("[::1]:5000/a", "Always"),
        ("[::1/a", "IfNotPresent"),
        ("plain/a", "Always"),
        ("plain/Upper", "IfNotPresent"),
        ("plain_/a", "IfNotPresent"),
        (f"a:latest@sha512:{'0' * 128}", "Always"),
        (f"a:latest@sha512:{'0' * 64}", "IfNotPresent"),
        (f"a:latest@sha256:{'x' * 64}", "IfNotPresent"),
        (f"a:latest@md5:{'0' * 64}", "IfNotPresent"),
    ],
)
def test_invalid_name_or_digest_is_not_always_pulled(image: str, policy: str) -> None:
    assert image_pull_policy(image) == policy
