"""Tests for parsing pull secrets."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from nodeagent.contracts.runtime import Credentials
from nodeagent_plugins.image_pull.keyring import read_pull_secrets


def secret(name: str, content: Any, *, old: bool = False, kind: str = "") -> dict[str, Any]:
    text = content if isinstance(content, str) else json.dumps(content)
    key, default = (".dockercfg", "dockercfg") if old else (".dockerconfigjson", "dockerconfigjson")
    return {
        "metadata": {"name": name},
        "type": kind or f"kubernetes.io/{default}",
        "data": {key: base64.b64encode(text.encode()).decode()},
    }


def test_both_types_of_pull_secret_are_parsed() -> None:
    auth = base64.b64encode(b"bob:pa:ss").decode()
    keyring = read_pull_secrets(
        [
            secret("new", {"auths": {"https://reg.io/v2/": {"username": "x", "password": "y", "auth": auth}}}),
            secret("old", {"reg.io": {"username": "alice", "password": "pw", "email": "a@b"}}, old=True),
            secret("none", {"auths": None}),
            secret("other", {"auths": {"reg.io": {"username": "eve"}}}, kind="Opaque"),
            secret("mixed", {"reg.io": {"username": "eve"}}, old=True, kind="Opaque"),
            secret("empty", {}, old=True) | {"data": {}},
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
def test_invalid_secret_is_named_but_not_quoted(content: Any) -> None:
    with pytest.raises(ValueError, match="'mine'") as raised:
        read_pull_secrets([secret("mine", content)])

    assert "hunter2" not in str(raised.value)
    assert raised.value.__cause__ is None
