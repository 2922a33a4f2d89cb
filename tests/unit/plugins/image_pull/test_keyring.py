"""Credentials go only to the registries they are for."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from nodeagent_plugins.image_pull.keyring import Keyring, matches, read_pull_secrets

from nodeagent.contracts.runtime import Credentials


def secret(name: str, content: Any, *, old: bool = False, kind: str = "") -> dict[str, Any]:
    text = content if isinstance(content, str) else json.dumps(content)
    key, default = (".dockercfg", "dockercfg") if old else (".dockerconfigjson", "dockerconfigjson")
    return {
        "metadata": {"name": name},
        "type": kind or f"kubernetes.io/{default}",
        "data": {key: base64.b64encode(text.encode()).decode()},
    }


def users(keyring: Keyring, repository: str) -> list[str]:
    return [credentials.username for credentials in keyring.lookup(repository)]


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
        ("regist[pqr]y.io", "registry.io/x", True),
    ],
)
def test_matches_host_parts_one_by_one_and_the_path_by_prefix(pattern: str, repository: str, result: bool) -> None:
    assert matches(pattern, repository) is result


def test_returns_the_most_specific_location_first() -> None:
    keyring = Keyring()
    for location in ("reg.io", "reg.io/team/app", "reg.io/team", "other.io"):
        keyring.add(location, Credentials(username=location))

    assert users(keyring, "reg.io/team/app") == ["reg.io/team/app", "reg.io/team", "reg.io"]


def test_takes_the_default_registry_by_its_historic_url() -> None:
    keyring = Keyring()
    keyring.add("https://index.docker.io/v1/", Credentials(username="hub"))

    assert users(keyring, "docker.io/library/busybox") == ["hub"]
    assert users(keyring, "reg.io/library/busybox") == []


def test_reads_both_types_of_pull_secret() -> None:
    auth = base64.b64encode(b"bob:pa:ss").decode()
    keyring = read_pull_secrets(
        [
            secret("new", {"auths": {"https://reg.io/v2/": {"username": "x", "password": "y", "auth": auth}}}),
            secret("old", {"reg.io": {"username": "alice", "password": "pw", "email": "a@b"}}, old=True),
            secret("none", {"auths": None}),
            secret("other", {"auths": {"reg.io": {"username": "eve"}}}, kind="Opaque"),
        ]
    )

    assert keyring.lookup("reg.io/app") == [
        Credentials("bob", "pa:ss", "new"),
        Credentials("alice", "pw", "old"),
    ]


@pytest.mark.parametrize(
    "content",
    ["not json: hunter2", {"auths": "hunter2"}, {"auths": {"r": {"auth": "hunter2!"}}}, {"auths": {"r": "hunter2"}}],
)
def test_a_broken_secret_is_named_and_never_quoted(content: Any) -> None:
    with pytest.raises(ValueError, match="'mine'") as raised:
        read_pull_secrets([secret("mine", content)])

    assert "hunter2" not in str(raised.value)
    assert raised.value.__cause__ is None
