"""Exec credential plugins of a kubeconfig: a command that prints an ``ExecCredential``."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from nodeagent.base import yamlsafe
from nodeagent.base.secret import Secret

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
EXTENSION = "client.authentication.k8s.io/exec"
"""Extension of the cluster entry that is passed to the plugin."""
RUN_SECONDS = 60.0
_MAX_BYTES = 1024 * 1024
_KIND = "ExecCredential"
_MODES = ("Never", "IfAvailable", "Always")

Report = Callable[[str, object, str], None]
"""Function that records a problem: path below the entry, value unless it is secret, and violated rule."""


class ExecPluginError(ValueError):
    """The plugin failed or printed no valid credentials; the message contains no credentials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecPlugin:
    """Member ``exec`` of a user entry."""

    api_version: str
    command: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables in addition to those of the agent."""
    install_hint: str = ""
    """Text for the error if the command does not exist."""
    provide_cluster_info: bool = False

    def run(self, cluster: Mapping[str, Any]) -> ExecCredential:
        """Run the command and return its credentials. Blocks until it exits, at most ``RUN_SECONDS``.

        :param cluster: cluster entry, passed only with ``provideClusterInfo``.
        :raises ExecPluginError: the command failed or printed no valid credentials.
        """
        spec: dict[str, Any] = {"interactive": False}
        if self.provide_cluster_info:
            spec["cluster"] = dict(cluster)
        document = {"apiVersion": self.api_version, "kind": _KIND, "spec": spec}
        environment = {**os.environ, **self.environment, "KUBERNETES_EXEC_INFO": json.dumps(document)}
        try:
            done = subprocess.run(
                [self.command, *self.arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,  # Standard error is that of the agent, so its log contains the messages.
                env=environment,
                timeout=RUN_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ExecPluginError(f"{self.command} did not exit within {RUN_SECONDS:.0f} s") from error
        except OSError as error:
            hint = f"; {self.install_hint.strip()}" if self.install_hint else ""
            raise ExecPluginError(f"{self.command} cannot be run: {error.strerror or error}{hint}") from error
        if done.returncode:
            raise ExecPluginError(f"{self.command} failed with exit code {done.returncode}")
        return self._parse(done.stdout)

    def _parse(self, output: bytes) -> ExecCredential:
        try:
            document = yamlsafe.load(output, yamlsafe.Limits(_MAX_BYTES, max_depth=32, max_values=10_000))
        except yamlsafe.YamlError:
            raise ExecPluginError(f"{self.command} printed no valid JSON") from None  # The text may quote a token.
        if not isinstance(document, Mapping) or document.get("kind") != _KIND:
            raise ExecPluginError(f"{self.command} printed no {_KIND}")
        if document.get("apiVersion") != self.api_version:
            found = document.get("apiVersion")
            raise ExecPluginError(f"{self.command} printed apiVersion {found!r} instead of {self.api_version!r}")
        status = document.get("status")
        if not isinstance(status, Mapping):
            raise ExecPluginError(f"{self.command} printed no status")
        token, certificate, key = (
            str(status.get(name) or "") for name in ("token", "clientCertificateData", "clientKeyData")
        )
        if bool(certificate) != bool(key):
            raise ExecPluginError(f"{self.command} printed only one of clientCertificateData and clientKeyData")
        if not token and not certificate:
            raise ExecPluginError(f"{self.command} printed neither a token nor a certificate")
        return ExecCredential(
            Secret(token) if token else None,
            certificate.encode(),
            key.encode(),
            self._expiration(status.get("expirationTimestamp")),
        )

    def _expiration(self, text: object) -> datetime | None:
        if text is None:
            return None
        try:
            moment = datetime.fromisoformat(str(text))
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            raise ExecPluginError(f"{self.command} printed an invalid expirationTimestamp")
        return moment


@dataclass(frozen=True, slots=True)
class ExecCredential:
    """Credentials that a plugin printed."""

    token: Secret[str] | None = None
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)
    expires: datetime | None = None
    """``None``: valid until the server rejects them."""

    def expired(self, now: datetime) -> bool:
        return self.expires is not None and now >= self.expires


def read_plugin(entry: object, directory: Path, report: Report) -> ExecPlugin | None:
    """Return the plugin of a user entry, or ``None`` if *entry* is invalid.

    :param directory: directory of the kubeconfig, to which a command with a slash is relative.
    """
    if not isinstance(entry, Mapping):
        report("", None, "must be a mapping")
        return None
    faults = 0

    def fault(path: str, value: object, rule: str) -> None:
        nonlocal faults
        faults += 1
        report(path, value, rule)

    def text(name: str) -> str:
        value = entry.get(name)
        if value is not None and not isinstance(value, str):
            fault(f".{name}", None, "must be a string")
            return ""
        return value or ""

    version, command, mode = text("apiVersion"), text("command"), text("interactiveMode")
    if version not in API_VERSIONS:
        fault(".apiVersion", version, f"must be {' or '.join(API_VERSIONS)}")
    if not command:
        fault(".command", None, "must be set")
    if mode not in _MODES and (mode or version == API_VERSIONS[0]):
        fault(".interactiveMode", mode, f"must be {', '.join(_MODES[:-1])} or {_MODES[-1]}")
    if mode == "Always":
        fault(".interactiveMode", mode, "is not supported: the agent has no terminal")
    arguments = entry.get("args") or []
    if not isinstance(arguments, list) or not all(isinstance(argument, str) for argument in arguments):
        fault(".args", None, "must be a list of strings")
    variables = entry.get("env") or []
    if not isinstance(variables, list) or not all(_is_variable(variable) for variable in variables):
        fault(".env", None, "must be a list of name and value")
    plugin_hint = text("installHint")
    if faults:
        return None
    return ExecPlugin(
        api_version=version,
        command=str(directory.absolute() / command) if "/" in command else command,
        arguments=tuple(arguments),
        environment={variable["name"]: variable.get("value") or "" for variable in variables},
        install_hint=plugin_hint,
        provide_cluster_info=entry.get("provideClusterInfo") is True,
    )


def _is_variable(entry: object) -> bool:
    return (
        isinstance(entry, Mapping)
        and isinstance(entry.get("name"), str)
        and isinstance(entry.get("value"), str | None)
        and bool(entry["name"])
        and "=" not in entry["name"]
    )
