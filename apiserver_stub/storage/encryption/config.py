"""Parser of the ``EncryptionConfiguration`` file; reports all problems together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from apiserver_stub.storage.encryption.kms_config import build_kms, check_kms, quoted
from apiserver_stub.storage.encryption.rules import Rule, Rules
from apiserver_stub.storage.encryption.transformers import IDENTITY, KINDS, Transformer
from nodeagent.base import gobase64, yamlsafe
from nodeagent.base.identity import Identity
from nodeagent.base.secret import Secret

_KIND = "EncryptionConfiguration"
_PROVIDERS = (*KINDS, "identity", "kms")
_INTERNAL = ("apiserveripinfo", "serviceipallocations", "servicenodeportallocations")
_CORE_ALL = "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources"
_OVERLAP = (
    "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be "
    "masked"
)
_EVENTS = "'*.{group}' objects are stored using the 'events' API group in etcd. Use 'events' instead in the config file"
_SEVERAL = "more than one provider specified in a single element, should split into different list elements"
_NONE = "provider does not contain any of the expected providers: AESGCM, AESCBC, Secretbox, Identity"


class EncryptionError(Exception):
    """The configuration is invalid; :attr:`problems` holds the messages."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        text = self.problems[0] if len(self.problems) == 1 else f"[{', '.join(self.problems)}]"
        super().__init__(f"error while parsing file: {text}")


def load_config(path: Path, identity: Identity, *, allows_kms_v1: bool = False) -> Rules:
    """Return the rules in the file *path*.

    :param allows_kms_v1: whether version 1 of key management services may be used.

    :raises EncryptionError: it cannot be read or is invalid; lists every problem.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise EncryptionError(
            [f"error reading encryption provider configuration file {str(path)!r}: {error}"]
        ) from error
    return parse_config(data, identity, allows_kms_v1=allows_kms_v1)


def parse_config(data: bytes, identity: Identity, *, allows_kms_v1: bool = False) -> Rules:
    """Return the rules in *data*; see :func:`load_config`."""
    try:
        config = yamlsafe.load(data)
    except yamlsafe.YamlError as error:
        raise EncryptionError([f"error decoding encryption provider configuration file: {error}"]) from error
    reader = _Reader(identity, allows_kms_v1=allows_kms_v1)
    rules = reader.read(config)
    if reader.problems:
        raise EncryptionError(reader.problems)
    return rules


class _Reader:
    def __init__(self, identity: Identity, *, allows_kms_v1: bool) -> None:
        self._identity, self._allows_kms_v1 = identity, allows_kms_v1
        self.problems: list[str] = []
        self._services: set[str] = set()

    def read(self, config: Any) -> Rules:
        expected = self._identity.group("apiserver.config") + "/v1"
        found = config if isinstance(config, dict) else {}
        if (found.get("apiVersion"), found.get("kind")) != (expected, _KIND):
            self.problems.append(
                f'no kind "{found.get("kind") or ""}" is registered for version "{found.get("apiVersion") or ""}", '
                f'expected "{_KIND}" of "{expected}"'
            )
            return Rules()
        entries = self._entries(found.get("resources"), "resources")
        return Rules(tuple(self._rule(entry, f"resources[{number}]") for number, entry in entries))

    def _rule(self, entry: Any, path: str) -> Rule:
        resources = self._resources(entry.get("resources"), f"{path}.resources")
        transformers = [
            transformer
            for number, provider in self._entries(entry.get("providers"), f"{path}.providers")
            for transformer in self._provider(provider, f"{path}.providers[{number}]")
        ]
        return Rule(resources, tuple(transformers) or (IDENTITY,))

    def _entries(self, value: Any, path: str) -> Iterator[tuple[int, dict[str, Any]]]:
        if value is not None and not isinstance(value, list):
            self._invalid(path, value, "must be a list")
            return
        if not value:
            self.problems.append(f"{path}: Required value: at least one {path} is required")
            return
        for number, item in enumerate(value):
            if isinstance(item, dict):
                yield number, item
            else:
                self._invalid(f"{path}[{number}]", item, "must be an object")

    def _resources(self, value: Any, path: str) -> tuple[tuple[str, str], ...]:
        if not isinstance(value, list) or not value:
            self.problems.append(f"{path}: Required value: at least one {path} is required")
            return ()
        parsed: list[tuple[str, str]] = []
        for number, name in enumerate(value):
            where = f"{path}[{number}]"
            if not isinstance(name, str) or not name:
                self._invalid(where, name, "must be a resource name")
                continue
            plural, _, group = name.partition(".")
            parsed.append((plural, group))
            if problem := _wrong_name(name, plural, group, self._identity):
                self._invalid(where, name, problem)
        if len(set(parsed)) < len(parsed):
            self._invalid(path, value, "the same resource cannot be specified multiple times")
        if _overlap(parsed):
            self._invalid(path, value, _OVERLAP)
        return tuple(parsed)

    def _provider(self, provider: dict[str, Any], path: str) -> Iterator[Transformer]:
        named = [name for name in _PROVIDERS if provider.get(name) is not None]
        if len(named) != 1:
            self.problems.append(f"{path}: Invalid value: {_SEVERAL if named else _NONE}")
            return
        (kind,) = named
        if kind == "identity":
            yield IDENTITY
        elif kind == "kms":
            yield from self._kms(provider[kind], f"{path}.kms")
        else:
            body = provider[kind]
            yield from self._keys(kind, body.get("keys") if isinstance(body, dict) else None, f"{path}.{kind}.keys")

    def _kms(self, body: Any, path: str) -> Iterator[Transformer]:
        found: dict[str, Any] = body if isinstance(body, dict) else {}
        problems, name = list(check_kms(found, path, allows_v1=self._allows_kms_v1)), found.get("name")
        if isinstance(name, str) and name in self._services:
            text = f"duplicate KMS provider name {name}, names must be unique"
            problems.append(f"{path}.name: Invalid value: {quoted(name)}: {text}")
        self.problems += problems
        if not problems:
            self._services.add(str(name))
            yield build_kms(found)

    def _keys(self, kind: str, keys: Any, path: str) -> Iterator[Transformer]:
        if not isinstance(keys, list) or not keys:
            self.problems.append(f"{path}: Required value: at least one keys is required")
            return
        make, lengths = KINDS[kind]
        for number, key in enumerate(keys):
            where, body = f"{path}[{number}]", key if isinstance(key, dict) else {}
            name, text = body.get("name"), body.get("secret")
            valid = isinstance(name, str)
            if not isinstance(name, str) or not name:
                valid = False
                self.problems.append(f"{where}.name: Required value: name is a mandatory field for a key")
            elif ":" in name:
                self._invalid(f"{where}.name", name, "must not contain ':'")
                valid = False
            if not isinstance(text, str) or not text:
                self.problems.append(f"{where}.secret: Required value: secret is a mandatory field for a key")
                continue
            try:
                secret = gobase64.decode(text)
            except gobase64.CorruptInput:
                self._invalid(f"{where}.secret", "REDACTED", "secrets must be base64 encoded")
                continue
            if len(secret) not in lengths:
                sizes = " ".join(map(str, lengths))
                text = f"secret is not of the expected length, got {len(secret)}, expected one of [{sizes}]"
                self._invalid(f"{where}.secret", "REDACTED", text)
            elif valid:
                yield make(str(name), Secret(secret))

    def _invalid(self, path: str, value: Any, text: str) -> None:
        self.problems.append(f"{path}: Invalid value: {quoted(value)}: {text}")


def _wrong_name(name: str, plural: str, group: str, identity: Identity) -> str:
    if name != name.lower():
        return "resource name should not contain capital letters"
    if name == "*":
        return _CORE_ALL
    if name in _INTERNAL:
        return "resources which do not have REST API/s cannot be encrypted"
    if group == identity.group("events"):
        return _EVENTS.format(group=group)
    if group == "extensions":
        return "'extensions' group has been removed and cannot be used for encryption"
    if group == "*" and plural != "*":
        return "encrypting the same resource across groups is not supported"
    return ""


def _overlap(parsed: Sequence[tuple[str, str]]) -> bool:
    distinct = set(parsed)
    if len(distinct) < 2:
        return False
    if ("*", "*") in distinct:
        return True
    whole = {group for plural, group in distinct if plural == "*"}
    return any(plural != "*" and group in whole for plural, group in distinct)
