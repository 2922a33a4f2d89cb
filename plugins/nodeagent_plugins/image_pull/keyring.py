"""Credentials by registry: reading pull secrets and finding what opens an image's registry. Pure."""

from __future__ import annotations

import base64
import binascii
import fnmatch
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from nodeagent.base import identity
from nodeagent.contracts.runtime import Credentials

_T = TypeVar("_T")

_DEFAULT_REGISTRY_KEY = "index.docker.io"
_DEFAULT_HOSTS = ("docker.io", "index.docker.io")


class Keyring:
    """Credentials sorted by the registry or repository they are for."""

    def __init__(self) -> None:
        self._by_key: dict[str, list[Credentials]] = {}

    def add(self, location: str, credentials: Credentials) -> None:
        """Add what opens *location*: a host, host and path, or URL, with globs in the host's parts."""
        host, path = _split(location)
        if path.startswith(("/v1/", "/v2/")):
            path = path[3:]
        key = host + (path if path != "/" else "")
        self._by_key.setdefault(key, []).append(credentials)

    def lookup(self, repository: str) -> list[Credentials]:
        """Return what may open *repository*, the most specific location first."""
        found = [
            credentials
            for key in sorted(self._by_key, reverse=True)
            if matches(key, repository)
            for credentials in self._by_key[key]
        ]
        if not found and repository.partition("/")[0] in _DEFAULT_HOSTS:
            found = self._by_key.get(_DEFAULT_REGISTRY_KEY, [])
        return found


def matches(pattern: str, repository: str) -> bool:
    """Tell whether *pattern* covers *repository*: ports equal, host parts glob one by one, path is a prefix."""
    (wanted, wanted_path), (given, given_path) = _split(pattern), _split(repository)
    wanted_host, wanted_port = _host_port(wanted)
    given_host, given_port = _host_port(given)
    if wanted_port != given_port or not given_path.startswith(wanted_path):
        return False
    wanted_parts, given_parts = wanted_host.split("."), given_host.split(".")
    return len(wanted_parts) == len(given_parts) and all(map(_glob, given_parts, wanted_parts))


def read_pull_secrets(secrets: Iterable[Mapping[str, Any]]) -> Keyring:
    """Read secrets of the types ``dockerconfigjson`` and ``dockercfg``; other types are passed over.

    :raises ValueError: one of those types does not hold what it promises; the message names the secret only.
    """
    keyring = Keyring()
    names = identity.current()
    for secret in secrets:
        name, data = secret.get("metadata", {}).get("name", ""), secret.get("data") or {}
        entries: dict[str, _Entry] = {}
        if secret.get("type") == names.label("dockerconfigjson") and data.get(".dockerconfigjson"):
            entries = _decode(name, data[".dockerconfigjson"], _DockerConfig).auths or {}
        elif secret.get("type") == names.label("dockercfg") and data.get(".dockercfg"):
            entries = _decode(name, data[".dockercfg"], dict[str, _Entry])
        for location, entry in entries.items():
            keyring.add(location, _credentials(name, entry))
    return keyring


class _Entry(msgspec.Struct):
    username: str = ""
    password: str = ""
    auth: str = ""
    """Base64 of ``user:password``; wins over the plain pair."""


class _DockerConfig(msgspec.Struct):
    auths: dict[str, _Entry] | None = None


def _decode(name: str, encoded: str, into: type[_T]) -> _T:
    try:
        return msgspec.json.decode(base64.b64decode(encoded, validate=True), type=into)
    except (binascii.Error, msgspec.MsgspecError):
        # Not chained: the cause would quote a piece of the secret.
        raise ValueError(f"pull secret {name!r} is not a registry configuration in JSON") from None


def _credentials(name: str, entry: _Entry) -> Credentials:
    if not entry.auth:
        return Credentials(username=entry.username, password=entry.password, source=name)
    try:
        decoded = base64.b64decode(re.sub(r"\s", "", entry.auth) + "==").decode()
    except (binascii.Error, UnicodeDecodeError):
        raise ValueError(f"pull secret {name!r} has an auth that is not base64") from None
    username, colon, password = decoded.rstrip("\0").partition(":")
    if not colon:
        raise ValueError(f"pull secret {name!r} has an auth without user and password")
    return Credentials(username=username, password=password, source=name)


def _split(location: str) -> tuple[str, str]:
    """Return host with port, and path; a library for URLs would take a glob's brackets for an address."""
    host, slash, path = location.removeprefix("https://").removeprefix("http://").partition("/")
    return host, slash + path


def _host_port(netloc: str) -> tuple[str, str]:
    host, colon, port = netloc.rpartition(":")
    return (host, port) if colon and port.isdigit() else (netloc, "")


def _glob(text: str, pattern: str) -> bool:
    if pattern.count("[") != pattern.count("]"):
        return False  # a malformed pattern never matches
    return fnmatch.fnmatchcase(text, pattern)
