"""Parsing of pull secrets and registry configuration files. No I/O.

Custom, since Docker's packages read these formats only from files.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from nodeagent.base import identity
from nodeagent.contracts.runtime import CredentialOwner, Credentials, OwnerKind
from nodeagent.model.registry import Keyring


def read_pull_secrets(secrets: Iterable[Mapping[str, Any]]) -> Keyring[Credentials]:
    """Parse secrets of the types ``dockerconfigjson`` and ``dockercfg``; other types are ignored.

    :raises ValueError: the content is invalid; the message names the secret and quotes nothing of it.
    """
    keyring = Keyring[Credentials]()
    names = identity.current()
    for secret in secrets:
        metadata, data = secret.get("metadata", {}), secret.get("data") or {}
        name = metadata.get("name", "")
        owner = CredentialOwner(OwnerKind.SECRET, metadata.get("namespace", ""), name, metadata.get("uid", ""))
        what = f"pull secret {name!r}"
        if secret.get("type") == names.label("dockerconfigjson") and data.get(".dockerconfigjson"):
            _add(keyring, what, name, _decoded(what, data[".dockerconfigjson"]), owner, old=False)
        elif secret.get("type") == names.label("dockercfg") and data.get(".dockercfg"):
            _add(keyring, what, name, _decoded(what, data[".dockercfg"]), owner, old=True)
    return keyring


def read_registry_file(path: str, content: bytes, *, old: bool) -> Keyring[Credentials]:
    """Parse the content of a ``config.json``, or of a ``.dockercfg`` if *old*.

    :raises ValueError: the content is invalid; the message quotes nothing of it.
    """
    keyring = Keyring[Credentials]()
    _add(keyring, f"file {path!r}", path, content, None, old=old)
    return keyring


class _Entry(msgspec.Struct):
    username: str = ""
    password: str = ""
    auth: str = ""
    """Base64 of ``user:password``; takes precedence over the plain fields."""
    email: str = ""
    """Unused by registries, but a part of the digest."""


class _DockerConfig(msgspec.Struct):
    auths: dict[str, _Entry] | None = None


def _decoded(what: str, encoded: str) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except ValueError:
        raise _unreadable(what) from None


def _add(
    keyring: Keyring[Credentials],
    what: str,
    source: str,
    content: bytes,
    owner: CredentialOwner | None,
    *,
    old: bool,
) -> None:
    try:
        if old:
            entries = msgspec.json.decode(content, type=dict[str, _Entry])
        else:
            entries = msgspec.json.decode(content, type=_DockerConfig).auths or {}
    except (ValueError, RecursionError):
        # Not chained: the cause would quote a piece of the secret.
        raise _unreadable(what) from None
    for location, entry in entries.items():
        credentials = _credentials(what, source, entry)
        if owner is not None:
            digest = credentials_digest(credentials.username, credentials.password, entry.email)
            credentials = replace(credentials, owner=replace(owner, digest=digest))
        keyring.add(location, credentials)


def credentials_digest(username: str, password: str, email: str = "") -> str:
    """Return the digest of credentials in pull records, which is that of the kubelet: SHA-256 of a JSON object.

    The encoder of the kubelet escapes ``&``, ``<``, ``>`` and the Unicode line separators.
    """
    fields = {"username": username, "password": password, "email": email}
    text = json.dumps({key: value for key, value in fields.items() if value}, ensure_ascii=False, separators=(",", ":"))
    for letter in "&<>\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return hashlib.sha256(text.encode()).hexdigest()


def _unreadable(what: str) -> ValueError:
    return ValueError(f"{what} is not a JSON registry configuration")


def _credentials(what: str, source: str, entry: _Entry) -> Credentials:
    if not entry.auth:
        return Credentials(username=entry.username, password=entry.password, source=source)
    try:
        decoded = base64.b64decode(re.sub(r"\s", "", entry.auth) + "==").decode()
    except ValueError:
        raise ValueError(f"{what} has an auth that is not base64") from None
    username, colon, password = decoded.rstrip("\0").partition(":")
    if not colon:
        raise ValueError(f"{what} has an auth without user and password")
    return Credentials(username=username, password=password, source=source)
