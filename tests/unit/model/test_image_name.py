"""Tests for the parser of image names."""

from __future__ import annotations

import pytest

from nodeagent.model.image_name import default_pull_policy, full_name, parse_image_name, with_default_tag

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("text", "repository", "tag", "digest"),
    [
        ("busybox", "docker.io/library/busybox", "", ""),
        ("busybox:1.36", "docker.io/library/busybox", "1.36", ""),
        ("someone/app", "docker.io/someone/app", "", ""),
        ("index.docker.io/app", "docker.io/library/app", "", ""),
        ("reg.example:5000/a/b:1", "reg.example:5000/a/b", "1", ""),
        ("reg.example:5000/a", "reg.example:5000/a", "", ""),
        ("localhost/a:b", "localhost/a", "b", ""),
        ("Upper/a", "Upper/a", "", ""),
        ("[::1]:5000/a", "[::1]:5000/a", "", ""),
        (f"reg.example/a:1@{DIGEST}", "reg.example/a", "1", DIGEST),
        (f"a__b/c-d--e.f@{DIGEST}", "docker.io/a__b/c-d--e.f", "", DIGEST),
    ],
)
def test_registry_repository_tag_and_digest_are_parsed(text: str, repository: str, tag: str, digest: str) -> None:
    name = parse_image_name(text)

    assert (name.repository, name.tag, name.digest) == (repository, tag, digest)


@pytest.mark.parametrize(
    "text",
    ["", ":1", "a:", "a b", "UPPER", "a//b", "a/", "/a", "a___b", "a:b:c", "a@sha256:abc", "a@x", "-a/b.c/d",
     "reg.example/" + "a" * 250, "f" * 64, "a:" + "t" * 129, "https://reg.example/a", "reg_x.y/a"],
)  # fmt: skip
def test_invalid_image_name_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"^(has|must|is) "):
        parse_image_name(text)


def test_default_tag_is_added_to_the_unchanged_name() -> None:
    def tagged(text: str) -> str:
        return with_default_tag(text, parse_image_name(text))

    assert tagged("busybox") == "busybox:latest"
    assert tagged("busybox:1") == "busybox:1"
    assert tagged(f"busybox@{DIGEST}") == f"busybox@{DIGEST}"


def test_default_pull_policy_is_always_only_for_latest() -> None:
    def policy(text: str) -> str:
        return default_pull_policy(parse_image_name(text))

    assert policy("busybox") == policy("busybox:latest") == "Always"
    assert policy("busybox:1") == policy(f"busybox@{DIGEST}") == "IfNotPresent"


@pytest.mark.parametrize(
    ("written", "full"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("a/b:1", "docker.io/a/b:1"),
        ("reg.test:5000/a/b", "reg.test:5000/a/b:latest"),
        (f"reg.test/a:1@{DIGEST}", f"reg.test/a@{DIGEST}"),
        (DIGEST, DIGEST),
        ("a" * 64, "a" * 64),
    ],
)
def test_full_name_is_the_name_in_image_stores(written: str, full: str) -> None:
    assert full_name(written) == full
