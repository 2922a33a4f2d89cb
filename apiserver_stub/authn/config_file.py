"""Authentication configuration file: trusted issuers of tokens, and anonymous requests.

spec: opt.authentication-config, gate.StructuredAuthenticationConfiguration
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from apiserver_stub.apimachinery.status import quote
from apiserver_stub.authn.anonymous import AnonymousAccess
from apiserver_stub.authn.jwt_config import ISSUER_FIELDS, IssuerRules, JwtConfig, JwtConfigError, read_issuer
from nodeagent.base import yamlsafe
from nodeagent.base.identity import Identity
from nodeagent.base.release import OLDEST, Release
from nodeagent.base.structs import Struct

KIND = "AuthenticationConfiguration"
_VERSIONS = {"v1alpha1": OLDEST, "v1beta1": Release(1, 30), "v1": Release(1, 34)}
"""Versions of the file, with the first releases that read them."""
_SEVERAL_ISSUERS, _ANONYMOUS = Release(1, 30), Release(1, 31)
_MAX_ISSUERS = 64


class ConfigRules(Struct, frozen=True):
    """Rules of a release for the file."""

    release: Release = OLDEST
    permits_anonymous: bool = False
    """``True`` if the file may contain ``anonymous`` (feature gate ``AnonymousAuthConfigurableEndpoints``)."""
    issuers: IssuerRules = IssuerRules()


class AuthenticationConfig(Struct, frozen=True):
    """Content of the file."""

    issuers: tuple[JwtConfig, ...] = ()
    anonymous: AnonymousAccess | None = None
    """``None`` if the file does not configure anonymous requests."""


def load(path: Path, identity: Identity, rules: ConfigRules) -> AuthenticationConfig:
    """Return the content of the file *path*.

    :raises JwtConfigError: the file cannot be read or is invalid.
    """
    try:
        document = yamlsafe.load(path.read_bytes())
    except (OSError, yamlsafe.YamlError) as error:
        raise JwtConfigError(f"{path}: {error}") from error
    if not isinstance(document, dict):
        raise JwtConfigError(f"{path}: expected {KIND}")
    group = identity.group("apiserver.config")
    versions = [f"{group}/{name}" for name, since in _VERSIONS.items() if rules.release >= since]
    if document.get("kind") != KIND or document.get("apiVersion") not in versions:
        listed = " or ".join(f'"{version}"' for version in versions)
        raise JwtConfigError(f"{path}: expected {KIND} of version {listed}")
    if wrong := list(_schema_errors(document, _schema(rules.release), "")):
        raise JwtConfigError("\n".join(f"{path}: strict decoding error: {problem}" for problem in wrong))
    entries = document.get("jwt") or []
    problems = list(_count_problems(entries, rules.release))
    found = [read_issuer(entry, f"jwt[{index}]", rules.issuers) for index, entry in enumerate(entries)]
    problems += [problem for _, errors in found for problem in errors]
    problems += _duplicates([config for config, _ in found])
    problems += _anonymous_problems(document.get("anonymous"), rules)
    if problems:
        raise JwtConfigError("\n".join(problems))
    return AuthenticationConfig(tuple(config for config, _ in found), _anonymous_access(document.get("anonymous")))


def _schema(release: Release) -> dict[str, Any]:
    """Return the supported fields of the file; other fields are errors."""
    fields: dict[str, Any] = {"apiVersion": "", "kind": "", "jwt": [ISSUER_FIELDS]}
    if release < _SEVERAL_ISSUERS:
        later = ("discoveryURL", "egressSelectorType")
        issuer = {name: value for name, value in ISSUER_FIELDS["issuer"].items() if name not in later}
        return {**fields, "jwt": [{**ISSUER_FIELDS, "issuer": issuer}]}
    if release >= _ANONYMOUS:
        fields["anonymous"] = {"enabled": False, "conditions": [{"path": ""}]}
    return fields


def _count_problems(entries: Sequence[Any], release: Release) -> Iterator[str]:
    single = release < _SEVERAL_ISSUERS
    limit = 1 if single else _MAX_ISSUERS
    if len(entries) > limit:
        yield f"jwt: Too many: {len(entries)}: must have at most {limit} items"
    if single and not entries:
        yield "jwt: Required value: at least one jwt is required"


def _duplicates(issuers: Sequence[JwtConfig]) -> list[str]:
    found = []
    for name, urls in (
        ("url", [item.issuer for item in issuers]),
        ("discoveryURL", [item.discovery_url for item in issuers]),
    ):
        found += [
            f"jwt[{index}].issuer.{name}: Duplicate value: {quote(url)}"
            for index, url in enumerate(urls)
            if url and url in urls[:index]
        ]
    return found


def _anonymous_problems(anonymous: Mapping[str, Any] | None, rules: ConfigRules) -> Iterator[str]:
    if anonymous is None:
        return
    if not rules.permits_anonymous:
        text = "anonymous is not supported when AnonymousAuthConfigurableEndpoints feature gate is disabled"
        yield f"anonymous: Forbidden: {text}"
    conditions = anonymous.get("conditions") or []
    if conditions and not anonymous.get("enabled"):
        text = "enabled should be set to true when conditions are defined"
        yield f"anonymous.conditions: Invalid value: {quote(conditions)}: {text}"


def _anonymous_access(anonymous: Mapping[str, Any] | None) -> AnonymousAccess | None:
    if anonymous is None:
        return None
    paths = frozenset(item.get("path") or "" for item in anonymous.get("conditions") or [])
    return AnonymousAccess(bool(anonymous.get("enabled")), paths)


def _schema_errors(value: Any, schema: Any, where: str) -> Iterator[str]:
    """Yield errors for fields that are not in *schema* and for values of the wrong type; null is an omitted field."""
    if value is None:
        return
    if isinstance(schema, dict):
        if not isinstance(value, dict):
            yield f'"{where}" must be an object'
            return
        for name, content in value.items():
            path = f"{where}.{name}" if where else name
            if name in schema:
                yield from _schema_errors(content, schema[name], path)
            else:
                yield f'unknown field "{path}"'
    elif isinstance(schema, list):
        if not isinstance(value, list):
            yield f'"{where}" must be a list'
            return
        for index, item in enumerate(value):
            yield from _schema_errors({} if item is None else item, schema[0], f"{where}[{index}]")
    elif isinstance(schema, bool):
        if not isinstance(value, bool):
            yield f'"{where}" must be true or false'
    elif not isinstance(value, str):
        yield f'"{where}" must be text'
