"""Tests for the matching of credentials to registries."""

from __future__ import annotations

import pytest

from nodeagent.model.registry import Keyring, matches


@pytest.mark.parametrize(
    ("pattern", "repository", "result"),
    [
        ("*.registry.io", "a.registry.io/x", True),
        ("*.registry.io", "a.b.registry.io/x", False),
        ("*.registry.io", "registry.io/x", False),
        ("*.*.registry.io", "a.b.registry.io/x", True),
        ("reg*.io", "registry.io/x", True),
        ("registry.io:8080/path", "registry.io:8080/path/img", True),
        ("registry.io/path", "registry.io:8080/path/img", False),
        ("registry.io:8080", "registry.io/img", False),
        ("registry.io/foo", "registry.io/foobar", True),
        ("registry.io/foo", "registry.io/bar/foo", False),
        ("reg[istry.io", "reg[istry.io/x", False),
        ("regi[str]try.io", "registry.io/x", True),
        ("[fd00::1]:5000", "[fd00::1]:5000/x", True),
    ],
)
def test_host_parts_match_as_globs_and_path_as_prefix(pattern: str, repository: str, result: bool) -> None:
    assert matches(pattern, repository) is result


def test_most_specific_location_is_first() -> None:
    keyring = Keyring[str]()
    for location in ("reg.io", "reg.io/team/app", "reg.io/team", "other.io"):
        keyring.add(location, location)

    assert keyring.lookup("reg.io/team/app") == ["reg.io/team/app", "reg.io/team", "reg.io"]


def test_default_registry_is_found_by_its_historic_url() -> None:
    keyring = Keyring[str]()
    keyring.add("https://index.docker.io/v1/", "hub")

    assert keyring.lookup("docker.io/library/busybox") == ["hub"]
    assert keyring.lookup("reg.io/library/busybox") == []
