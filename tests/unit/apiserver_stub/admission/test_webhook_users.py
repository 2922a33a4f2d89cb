"""Tests for the credentials of admission webhooks, which depend on the server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from apiserver_stub.admission.config import AdmissionError
from apiserver_stub.admission.webhooks.users import NO_USERS, WebhookUsers, configured_users


def kubeconfig(directory: Path, users: dict[str, Any], current: str = "") -> Path:
    path = directory / "kubeconfig"
    document: dict[str, Any] = {"users": [{"name": name, "user": user} for name, user in users.items()]}
    if current:
        document["contexts"] = [{"name": "c", "context": {"user": current}}]
        document["current-context"] = "c"
    path.write_text(yaml.safe_dump(document))
    return path


def token_of(users: WebhookUsers, server: str) -> str:
    found = users.user_of(server)
    return "" if found is None else found.current().authorization().removeprefix("Bearer ")


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("a.example.com:8443", "port"),
        ("a.example.com:443", "host"),
        ("b.example.com:443", "wildcard"),
        ("x.b.example.com:443", "wildcard"),
        ("b.example.com:8443", "other"),
        ("hook.default.svc:443", "service"),
        ("elsewhere:443", "other"),
    ],
)
def test_most_specific_user_applies_to_a_server(tmp_path: Path, server: str, expected: str) -> None:
    names = {
        "a.example.com:8443": "port",
        "a.example.com": "host",
        "*.example.com": "wildcard",
        "hook.default.svc": "service",
        "*": "other",
    }
    users = WebhookUsers.load(kubeconfig(tmp_path, {name: {"token": token} for name, token in names.items()}))

    assert token_of(users, server) == expected


@pytest.mark.parametrize(("current", "expected"), [("", ""), ("fallback", "t")])
def test_user_of_the_current_context_applies_to_other_servers(tmp_path: Path, current: str, expected: str) -> None:
    users = WebhookUsers.load(kubeconfig(tmp_path, {"fallback": {"token": "t"}}, current))

    assert token_of(users, "a:443") == expected


def test_path_is_relative_to_the_configuration(tmp_path: Path) -> None:
    kubeconfig(tmp_path, {"*": {"token": "t"}})

    assert token_of(configured_users("Plugin", {"kubeConfigFile": "kubeconfig"}, tmp_path), "a:443") == "t"
    assert configured_users("Plugin", {}, tmp_path) is NO_USERS


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"kubeConfigFile": "missing"}, "Plugin: kubeConfigFile: .*missing: cannot be read"),
        ({"kubeconfig": "x"}, 'Plugin: .*"kubeconfig"'),
    ],
)
def test_invalid_configuration_is_rejected(tmp_path: Path, config: dict[str, str], message: str) -> None:
    with pytest.raises(AdmissionError, match=message):
        configured_users("Plugin", config, tmp_path)
