"""The audit policy file, which selects the requests to log and the level of detail (spec: opt.audit-policy-file)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any

import msgspec

from apiserver_stub.apimachinery.request import RequestInfo, User
from nodeagent.base import yamlsafe
from nodeagent.base.identity import Identity
from nodeagent.base.names import subdomain_problems
from nodeagent.base.structs import Struct

_log = logging.getLogger(__name__)

STAGES = ("RequestReceived", "ResponseStarted", "ResponseComplete", "Panic")


class AuditError(Exception):
    """Audit logging failed: a file is invalid or inaccessible, or a sink did not write events."""


class Level(IntEnum):
    """The level of detail of an audit event; each level includes the previous one."""

    None_ = 0
    Metadata = 1
    Request = 2
    RequestResponse = 3


LEVELS = {level.name.rstrip("_"): level for level in Level}
NAMES = {level: name for name, level in LEVELS.items()}


class _Resources(msgspec.Struct, rename="camel"):
    group: str = ""
    resources: list[str] | None = None
    resource_names: list[str] | None = None


class _Rule(msgspec.Struct, rename="camel"):
    level: str = ""
    users: list[str] | None = None
    user_groups: list[str] | None = None
    verbs: list[str] | None = None
    resources: list[_Resources] | None = None
    namespaces: list[str] | None = None
    non_resource_urls: list[str] | None = msgspec.field(default=None, name="nonResourceURLs")
    omit_stages: list[str] | None = None
    omit_managed_fields: bool | None = None


class _File(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    metadata: dict[str, Any] | None = None
    rules: list[_Rule] | None = None
    omit_stages: list[str] | None = None
    omit_managed_fields: bool = False


class Decision(Struct, frozen=True):
    """The level and the omissions for a request."""

    level: Level
    omit_stages: frozenset[str] = frozenset()
    omit_managed_fields: bool = False


class _Matcher(Struct, frozen=True):
    rule: _Rule
    decision: Decision

    def matches(self, user: User | None, info: RequestInfo) -> bool:
        rule = self.rule
        if rule.users and (user is None or user.name not in rule.users):
            return False
        if rule.user_groups and (user is None or not any(group in rule.user_groups for group in user.groups)):
            return False
        if rule.verbs and info.verb not in rule.verbs:
            return False
        if rule.namespaces or rule.resources:
            return info.is_resource and _matches_resource(rule, info)
        if rule.non_resource_urls:
            return not info.is_resource and any(_matches_path(info.path, spec) for spec in rule.non_resource_urls)
        return True


class Policy:
    """Ordered rules; the first match decides, and a request that matches none is not logged."""

    def __init__(self, matchers: Sequence[_Matcher], otherwise: Decision) -> None:
        self._matchers, self._otherwise = matchers, otherwise

    def decide(self, user: User | None, info: RequestInfo) -> Decision:
        """Return the decision for a request; *user* is ``None`` if authentication failed."""
        for matcher in self._matchers:
            if matcher.matches(user, info):
                return matcher.decision
        return self._otherwise


def audit_version(identity: Identity) -> str:
    """Return the API version of policies and events."""
    return identity.group("audit") + "/v1"


def load_policy(path: Path, identity: Identity) -> Policy:
    """Read the policy in *path*.

    :raises AuditError: the file cannot be read or is not a valid policy; the text lists all problems.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        reason = f"open {path}: {(error.strerror or str(error)).lower()}"
        raise AuditError(f'loading audit policy file: failed to read file path "{path}": {reason}') from None
    try:
        return read_policy(text, identity)
    except AuditError as error:
        raise AuditError(f"loading audit policy file: {error}: from file {path}") from None


def read_policy(text: bytes, identity: Identity) -> Policy:
    """Return the policy that *text* describes.

    :raises AuditError: *text* is not a valid policy.
    """
    try:
        document = yamlsafe.load(text)
        file = msgspec.convert(document, _File)
    except (yamlsafe.YamlError, msgspec.ValidationError) as error:
        raise AuditError(f"failed decoding: {error}") from None
    if (file.api_version, file.kind) != (audit_version(identity), "Policy"):
        raise AuditError(
            f'failed decoding: no kind "{file.kind}" is registered for version "{file.api_version}" in scheme "audit"'
        )
    if problems := list(_problems(file)):
        raise AuditError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    if not file.rules:
        raise AuditError("loaded illegal policy with 0 rules")
    if unknown := list(_unknown_fields(document)):
        _log.warning("Audit policy contains errors, falling back to lenient decoding: %s", ", ".join(unknown))
    everywhere = frozenset(file.omit_stages or ())
    matchers = [_Matcher(rule, _decision(rule, everywhere, file.omit_managed_fields)) for rule in file.rules]
    return Policy(matchers, Decision(Level.None_, everywhere, file.omit_managed_fields))


def _decision(rule: _Rule, omit_stages: frozenset[str], omit_managed_fields: bool) -> Decision:
    omits = omit_managed_fields if rule.omit_managed_fields is None else rule.omit_managed_fields
    return Decision(LEVELS[rule.level], omit_stages | frozenset(rule.omit_stages or ()), omits)


def _matches_resource(rule: _Rule, info: RequestInfo) -> bool:
    if rule.namespaces and info.namespace not in rule.namespaces:
        return False
    return not rule.resources or any(_covers(entry, info) for entry in rule.resources)


def _covers(entry: _Resources, info: RequestInfo) -> bool:
    if entry.group != info.group:
        return False
    if not entry.resources:
        return True
    if entry.resource_names and info.name not in entry.resource_names:
        return False
    combined = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
    return any(
        spec in (combined, "*", f"{info.resource}/*") or (bool(info.subresource) and spec == f"*/{info.subresource}")
        for spec in entry.resources
    )


def _matches_path(path: str, spec: str) -> bool:
    return spec in ("*", path) or (spec.endswith("*") and path.startswith(spec.rstrip("*")))


def _problems(file: _File) -> Iterator[str]:
    yield from _bad_stages(file.omit_stages, "omitStages")
    for index, rule in enumerate(file.rules or ()):
        where = f"rules[{index}]"
        if not rule.level:
            yield f"{where}.level: Required value"
        elif rule.level not in LEVELS:
            supported = ", ".join(f'"{name}"' for name in LEVELS)
            yield f'{where}.level: Unsupported value: "{rule.level}": supported values: {supported}'
        yield from _bad_urls(rule.non_resource_urls, f"{where}.nonResourceURLs")
        for entry in rule.resources or ():
            if entry.group and (problems := subdomain_problems(entry.group)):
                yield f'{where}.resources.group: Invalid value: "{entry.group}": {",".join(problems)}'
            if entry.resource_names and not entry.resources:
                names = msgspec.json.encode(entry.resource_names).decode()
                text = "using resourceNames requires at least one resource"
                yield f"{where}.resources.resourceNames: Invalid value: {names}: {text}"
        yield from _bad_stages(rule.omit_stages, f"{where}.omitStages")
        if rule.non_resource_urls and (rule.resources or rule.namespaces):
            urls = msgspec.json.encode(rule.non_resource_urls).decode()
            text = "rules cannot apply to both regular resources and non-resource URLs"
            yield f"{where}.nonResourceURLs: Invalid value: {urls}: {text}"


def _bad_stages(stages: Sequence[str] | None, where: str) -> Iterator[str]:
    for index, stage in enumerate(stages or ()):
        if stage not in STAGES:
            yield f'{where}[{index}]: Invalid value: "{stage}": allowed stages are {",".join(STAGES)}'


def _bad_urls(urls: Sequence[str] | None, where: str) -> Iterator[str]:
    for index, url in enumerate(urls or ()):
        if url == "*":
            continue
        if not url.startswith("/"):
            yield f"{where}[{index}]: Invalid value: \"{url}\": non-resource URL rules must begin with a '/' character"
        if "*" in url[:-1]:
            text = "non-resource URL wildcards '*' must be the final character of the rule"
            yield f'{where}[{index}]: Invalid value: "{url}": {text}'


def _unknown_fields(document: Mapping[str, Any]) -> Iterator[str]:
    yield from _unknown(document, _File, "")
    for index, rule in enumerate(document.get("rules") or ()):
        yield from _unknown(rule, _Rule, f"rules[{index}].")
        for number, entry in enumerate(rule.get("resources") or ()):
            yield from _unknown(entry, _Resources, f"rules[{index}].resources[{number}].")


def _unknown(value: Mapping[str, Any], kind: type[msgspec.Struct], where: str) -> Iterator[str]:
    known = {field.encode_name for field in msgspec.structs.fields(kind)}
    return (f'unknown field "{where}{name}"' for name in value if name not in known)
