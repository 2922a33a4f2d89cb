"""Tests for exec credential plugins: their entry in a kubeconfig, input and output."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nodeagent.base.exec_plugin import ExecCredential, ExecPlugin, ExecPluginError, read_plugin

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"


def plugin(tmp_path: Path, script: str, version: str = V1, **members: Any) -> ExecPlugin:
    program = tmp_path / "login"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return ExecPlugin(api_version=version, command=str(program), **members)


def printing(status: dict[str, Any] | None, version: str = V1) -> str:
    document: dict[str, Any] = {"apiVersion": version, "kind": "ExecCredential"}
    if status is not None:
        document["status"] = status
    return f"cat <<'END'\n{json.dumps(document)}\nEND"


def problems(entry: object) -> dict[str, str]:
    found: dict[str, str] = {}
    assert read_plugin(entry, Path("/etc/x"), lambda path, _, rule: found.update({path: rule})) is None or not found
    return found


@pytest.mark.parametrize("version", [V1, V1BETA1])
def test_token_and_expiration_are_read(tmp_path, version):
    status = {"token": "secret", "expirationTimestamp": "2026-01-02T03:04:05Z"}

    found = plugin(tmp_path, printing(status, version), version).run({})

    assert found.token is not None
    assert found.token.reveal() == "secret"
    assert found.expires == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert "secret" not in repr(found)


def test_plugin_receives_arguments_environment_and_cluster(tmp_path):
    script = f'echo "$1 $REGION $KUBERNETES_EXEC_INFO" >{tmp_path}/received\n{printing({"token": "t"})}'
    members = {"arguments": ("get-token",), "environment": {"REGION": "north"}}

    plugin(tmp_path, script, **members, provide_cluster_info=True).run({"server": "https://api", "config": {"a": 1}})

    argument, region, text = (tmp_path / "received").read_text().split(" ", 2)
    assert (argument, region) == ("get-token", "north")
    assert json.loads(text) == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": "https://api", "config": {"a": 1}}},
    }


def test_cluster_is_passed_only_on_request(tmp_path):
    script = f'echo "$KUBERNETES_EXEC_INFO" >{tmp_path}/received\n{printing({"token": "t"})}'

    plugin(tmp_path, script).run({"server": "https://api"})

    assert json.loads((tmp_path / "received").read_text())["spec"] == {"interactive": False}


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exit 3", "exit code 3"),
        ("echo 'token: [secret'", "no valid JSON"),
        ("echo '{}'", "no ExecCredential"),
        (printing({"token": "t"}, V1BETA1), "instead of"),
        (printing(None), "no status"),
        (printing({}), "neither a token nor a certificate"),
        (printing({"clientCertificateData": "c"}), "only one of"),
        (printing({"token": "t", "expirationTimestamp": "soon"}), "invalid expirationTimestamp"),
    ],
)
def test_invalid_output_is_an_error_without_its_text(tmp_path, script, reason):
    with pytest.raises(ExecPluginError, match=reason) as raised:
        plugin(tmp_path, script).run({})

    assert "secret" not in str(raised.value)


def test_missing_command_is_reported_with_the_install_hint(tmp_path):
    missing = ExecPlugin(api_version=V1, command=str(tmp_path / "absent"), install_hint="Install the login tool.\n")

    with pytest.raises(ExecPluginError, match=r"No such file or directory; Install the login tool\.$"):
        missing.run({})


def test_entry_is_read_and_its_command_is_relative_to_the_kubeconfig():
    entry = {
        "apiVersion": V1,
        "command": "bin/login",
        "args": ["a"],
        "env": [{"name": "N", "value": "v"}],
        "installHint": "hint",
        "interactiveMode": "Never",
        "provideClusterInfo": True,
    }

    found = read_plugin(entry, Path("/etc/x"), lambda *_: None)

    assert found == ExecPlugin(
        api_version=V1,
        command="/etc/x/bin/login",
        arguments=("a",),
        environment={"N": "v"},
        install_hint="hint",
        provide_cluster_info=True,
    )


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"apiVersion": "client.authentication.k8s.io/v1alpha1"}, ".apiVersion"),
        ({"command": ""}, ".command"),
        ({"interactiveMode": ""}, ".interactiveMode"),
        ({"interactiveMode": "Always"}, ".interactiveMode"),
        ({"args": "a"}, ".args"),
        ({"env": [{"value": "v"}]}, ".env"),
    ],
)
def test_invalid_entry_is_reported(change, path):
    entry = {"apiVersion": V1, "command": "login", "interactiveMode": "IfAvailable"}
    assert problems(entry) == {}

    assert list(problems(entry | change)) == [path]


def test_interactive_mode_is_optional_in_v1beta1():
    assert problems({"apiVersion": V1BETA1, "command": "login"}) == {}


@pytest.mark.parametrize(
    ("expires", "minute", "expired"),
    [
        (None, 0, False),
        (datetime(2024, 1, 1, 0, 5, tzinfo=UTC), 4, False),
        (datetime(2024, 1, 1, 0, 5, tzinfo=UTC), 5, True),
        (datetime(2024, 1, 1, 0, 5, tzinfo=UTC), 6, True),
    ],
)
def test_credential_expires_at_its_time(expires: datetime | None, minute: int, expired: bool) -> None:
    assert ExecCredential(expires=expires).expired(datetime(2024, 1, 1, 0, minute, tzinfo=UTC)) == expired
