"""Attribute-based access control: a policy file with one JSON object per line; any match allows.

spec: opt.authorization-policy-file
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import msgspec

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.authz import ALLOW, AuthorizationResult, Rules
from nodeagent.base.identity import Identity
from nodeagent.base.structs import Struct

_log = logging.getLogger(__name__)

_ALL = "*"
_READ_ONLY = frozenset(["get", "list", "watch"])
_EVERYONE = "system:authenticated"
_MAX_BYTES = 16 << 20
_TEXTS = ("user", "group", "namespace", "resource", "apiGroup", "nonResourcePath")
_OLD_TEXTS = ("user", "group", "namespace", "resource")


class PolicyError(ValueError):
    """The policy file is invalid; the text has a line per invalid line of the file."""


class Policy(Struct, frozen=True):
    """A line of the policy file; ``*`` matches anything."""

    user: str = ""
    group: str = ""
    namespace: str = ""
    resource: str = ""
    api_group: str = ""
    path: str = ""
    readonly: bool = False

    def concerns(self, user: User) -> bool:
        """Return whether the policy applies to *user*; if it names a user and a group, both must match."""
        if not self.user and not self.group:
            return False
        return self.user in ("", user.name) and (not self.group or self.group in user.groups)

    def allows(self, info: RequestInfo) -> bool:
        if self.readonly and info.verb not in _READ_ONLY:
            return False
        if not info.is_resource:
            path = self.path
            return path == info.path or (path.endswith(_ALL) and info.path.startswith(path.rstrip(_ALL)))
        return (
            self.namespace in (_ALL, info.namespace)
            and self.resource in (_ALL, info.resource)
            and self.api_group in (_ALL, info.group)
        )


class Abac:
    """Authorizer that allows requests that match a line of the policy file."""

    def __init__(self, policies: list[Policy]) -> None:
        self._policies = policies

    @classmethod
    def load(cls, path: Path, identity: Identity) -> Abac:
        """Read the file.

        :raises PolicyError: the file cannot be read, or a line is invalid.
        """
        return cls(load_policies(path, identity))

    async def authorize(self, user: User, info: RequestInfo) -> AuthorizationResult:
        if any(policy.concerns(user) and policy.allows(info) for policy in self._policies):
            return ALLOW
        return AuthorizationResult("no-opinion", "No policy matched.")

    def rules(self, user: User, namespace: str) -> Rules:
        found = Rules()
        for policy in self._policies:
            if not policy.concerns(user) or policy.namespace not in (_ALL, namespace):
                continue
            verbs = sorted(_READ_ONLY) if policy.readonly else [_ALL]
            if policy.resource:
                resources = [policy.resource]
                found.resources.append({"verbs": verbs, "apiGroups": [policy.api_group], "resources": resources})
            if policy.path:
                found.paths.append({"verbs": verbs, "nonResourceURLs": [policy.path]})
        return found


def load_policies(path: Path, identity: Identity) -> list[Policy]:
    """Return the policies of the file; blank lines and comments (``#``) are ignored.

    :raises PolicyError: the file cannot be read, or a line is invalid.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise PolicyError(f"error reading policy file {path}: larger than {_MAX_BYTES} bytes")
        lines = data.decode().splitlines()
    except UnicodeDecodeError as error:
        raise PolicyError(f"error reading policy file {path}: {error}") from error
    except OSError as error:
        raise PolicyError(f"open {path}: {error.strerror}") from error
    policies, problems, old = [], [], False
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            obj = _parse(line)
            policies.append(_versioned(obj, identity) if "apiVersion" in obj or "kind" in obj else _unversioned(obj))
            old |= "apiVersion" not in obj
        except ValueError as error:
            problems.append(f"error reading policy file {path}, line {number}: {line.strip()}: {error}")
    if problems:
        raise PolicyError("\n".join(problems))
    if old:
        _log.warning("Policy file contains lines without a version", extra={"path": str(path)})
    return policies


def _parse(line: str) -> Object:
    try:
        obj = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"couldn't get version/kind; json parse error: {error}") from error
    if isinstance(obj, dict):
        return obj
    raise ValueError("couldn't get version/kind; json parse error: the line is not an object")


def _versioned(obj: Object, identity: Identity) -> Policy:
    group = f"abac.authorization.{identity.label_domain}"
    version, kind = obj.get("apiVersion"), obj.get("kind")
    known = (f"{group}/v1beta1", f"{group}/v0")
    if kind != "Policy" or version not in known:
        raise ValueError(f'no kind "{kind or ""}" is registered for version "{version or known[1]}"')
    if version == known[1]:
        return _unversioned({name: value for name, value in obj.items() if name not in ("apiVersion", "kind")})
    spec = obj.get("spec")
    if isinstance(spec, dict):
        return _policy(spec, _TEXTS, "spec.")
    raise ValueError("spec: must be an object")


def _unversioned(obj: Object) -> Policy:
    """Return the policy of a line in the format without ``apiVersion``, where omitted fields match anything."""
    given = _policy(obj, _OLD_TEXTS, "")
    anywhere = not given.namespace and not given.resource
    return Policy(
        given.user,
        given.group if given.user or given.group else _EVERYONE,
        given.namespace or _ALL,
        given.resource or _ALL,
        _ALL,
        _ALL if anywhere else "",
        given.readonly,
    )


def _policy(members: Object, texts: tuple[str, ...], where: str) -> Policy:
    values: dict[str, Any] = {}
    for name, value in members.items():
        kind = bool if name == "readonly" else str
        if name != "readonly" and name not in texts:
            raise ValueError(f"unknown field {where}{name}")
        if not isinstance(value, kind):
            raise ValueError(f"{where}{name}: must be {'a boolean' if kind is bool else 'text'}")  # noqa: TRY004
        values[name] = value
    user, group = values.get("user", ""), values.get("group", "")
    if _ALL in (user, group):  # "*" does not match unauthenticated users.
        user, group = "", _EVERYONE
    namespace, resource, api_group, path = (
        values.get(name, "") for name in ("namespace", "resource", "apiGroup", "nonResourcePath")
    )
    return Policy(user, group, namespace, resource, api_group, path, values.get("readonly", False))
