"""Reading pull secrets. Pure."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from nodeagent.base import identity
from nodeagent.contracts.runtime import Credentials
from nodeagent.model.registry import Keyring

_T = TypeVar("_T")


def read_pull_secrets(secrets: Iterable[Mapping[str, Any]]) -> Keyring[Credentials]:
    """Read secrets of the types ``dockerconfigjson`` and ``dockercfg``; other types are passed over.

    :raises ValueError: one of those types does not hold what it promises; the message names the secret only.
    """
    keyring = Keyring[Credentials]()
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
