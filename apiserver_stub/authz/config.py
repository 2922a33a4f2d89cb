"""The ordered authorizers of the command line or of an ``AuthorizationConfiguration`` file.

spec: opt.authorization-config
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import field

from apiserver_stub import cel
from apiserver_stub.apimachinery.status import Cause, duplicate, invalid_value, not_supported, quote, required
from apiserver_stub.authz import MODES
from apiserver_stub.authz.webhook import WebhookSettings
from apiserver_stub.cel import CelError, Expression
from apiserver_stub.cel.config_expression import ConfigExpression
from nodeagent.base import yamlsafe
from nodeagent.base.duration import parse_duration
from nodeagent.base.identity import Identity
from nodeagent.base.names import subdomain_problems
from nodeagent.base.nulls import convert
from nodeagent.base.structs import Struct

KIND = "AuthorizationConfiguration"
_VERSION = "v1alpha1"
_REVIEW_VERSIONS = ("v1", "v1beta1")
_FAILURES = ("NoOpinion", "Deny")
_IN_CLUSTER, _FROM_FILE = "InClusterConfig", "KubeConfigFile"
_LONGEST_TIMEOUT_SECONDS = 30.0
_MOST_CONDITIONS = 64
_BLANK = re.compile(r"\s*")


class AuthorizationConfigError(ValueError):
    """The file is invalid; the text has a line per problem."""


class AuthorizerConfig(Struct, frozen=True):
    """An authorizer of the chain; for a webhook also its connection and settings."""

    mode: str
    connection: Path | None = None
    timeout_seconds: float = _LONGEST_TIMEOUT_SECONDS
    webhook: WebhookSettings = field(default_factory=WebhookSettings)


class _Strict(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Part of the file; unknown fields are rejected."""


class _Connection(_Strict):
    type: str = ""
    kube_config_file: str | None = None


class _Condition(_Strict):
    expression: str = ""


class _Webhook(_Strict):
    authorized_ttl: str = msgspec.field(default="", name="authorizedTTL")
    unauthorized_ttl: str = msgspec.field(default="", name="unauthorizedTTL")
    timeout: str = ""
    subject_access_review_version: str = ""
    match_condition_subject_access_review_version: str = ""
    failure_policy: str = ""
    connection_info: _Connection = msgspec.field(default_factory=_Connection)
    match_conditions: list[_Condition] = []


class _Authorizer(_Strict):
    type: str = ""
    name: str = ""
    webhook: _Webhook | None = None


class _Document(_Strict):
    api_version: str
    kind: str
    authorizers: list[_Authorizer] = []


def load(path: Path, identity: Identity) -> list[AuthorizerConfig]:
    """Return the authorizers of the file *path*.

    :raises AuthorizationConfigError: the file cannot be read or is invalid.
    """
    try:
        found = yamlsafe.load(path.read_bytes())
    except OSError as error:
        raise AuthorizationConfigError(_failed(f"open {path}: {error.strerror}")) from error
    except yamlsafe.YamlError as error:
        raise AuthorizationConfigError(_failed(str(error))) from error
    version = f"{identity.group('apiserver.config')}/{_VERSION}"
    if not isinstance(found, dict) or (found.get("apiVersion"), found.get("kind")) != (version, KIND):
        raise AuthorizationConfigError(_failed(f'expected {KIND} of version "{version}"'))
    try:
        document = convert(found, _Document)
    except msgspec.ValidationError as error:
        raise AuthorizationConfigError(_failed(f"strict decoding error: {error}")) from error
    reader = _Reader()
    configs = list(reader.read(document))
    if reader.problems:
        raise AuthorizationConfigError("\n".join(reader.problems))
    return configs


class _Reader:
    """Parser of the file that collects all problems."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._names: set[str] = set()

    def read(self, document: _Document) -> Iterator[AuthorizerConfig]:
        if not document.authorizers:
            self._add(required("authorizers", "at least one authorization mode must be defined"))
        modes: set[str] = set()
        for index, item in enumerate(document.authorizers):
            where = f"authorizers[{index}]"
            if not item.type:
                self._add(required(f"{where}.type"))
            elif item.type not in MODES:
                self._add(not_supported(f"{where}.type", item.type, sorted(MODES)))
            elif item.type in modes and item.type != "Webhook":
                self._add(duplicate(f"{where}.type", item.type))
            else:
                modes.add(item.type)
                self._check_name(item, where)
                yield from self._read_authorizer(item, where)

    def _check_name(self, item: _Authorizer, where: str) -> None:
        if not item.name:
            self._add(required(f"{where}.name"))
        elif item.name in self._names:
            self._add(duplicate(f"{where}.name", item.name))
        elif problems := subdomain_problems(item.name):
            rule = f"authorizer name is invalid: {', '.join(problems)}"
            self._add(invalid_value(f"{where}.name", item.name, rule))
        elif item.type != "Webhook" and item.name != item.type.lower():
            self.problems.append(f"expected name {item.type.lower()} for authorizer {item.type} instead of {item.name}")
        self._names.add(item.name)

    def _read_authorizer(self, item: _Authorizer, where: str) -> Iterator[AuthorizerConfig]:
        if item.type != "Webhook":
            if item.webhook is not None:
                self._add(invalid_value(f"{where}.webhook", "non-null", "may only be specified when type=Webhook"))
            yield AuthorizerConfig(item.type)
        elif item.webhook is None:
            self._add(required(f"{where}.webhook", "required when type=Webhook"))
        else:
            yield self._read_webhook(item.webhook, where)

    def _read_webhook(self, webhook: _Webhook, where: str) -> AuthorizerConfig:
        timeout = self._seconds(webhook.timeout, f"{where}.timeout", most=_LONGEST_TIMEOUT_SECONDS)
        authorized = self._seconds(webhook.authorized_ttl, f"{where}.authorizedTTL")
        unauthorized = self._seconds(webhook.unauthorized_ttl, f"{where}.unauthorizedTTL")
        version = webhook.subject_access_review_version
        self._choice(version, f"{where}.subjectAccessReviewVersion", _REVIEW_VERSIONS)
        field_path = f"{where}.matchConditionSubjectAccessReviewVersion"
        condition_version = webhook.match_condition_subject_access_review_version
        if webhook.match_conditions and not condition_version:
            self._add(required(field_path, "required if match conditions are specified"))
        elif condition_version:
            self._choice(condition_version, field_path, ("v1",))
        self._choice(webhook.failure_policy, f"{where}.failurePolicy", _FAILURES)
        settings = WebhookSettings(
            version,
            authorized,
            unauthorized,
            "deny" if webhook.failure_policy == "Deny" else "no-opinion",
            tuple(self._conditions(webhook.match_conditions, f"{where}.matchConditions")),
        )
        connection = self._connection(webhook.connection_info, f"{where}.connectionInfo")
        return AuthorizerConfig("Webhook", connection, timeout, settings)

    def _connection(self, info: _Connection, where: str) -> Path | None:
        field_path, file = f"{where}.kubeConfigFile", info.kube_config_file
        if info.type == _IN_CLUSTER:
            if file is not None:
                self._add(invalid_value(field_path, file, f"can only be set when type={_FROM_FILE}"))
            rule = "the server does not run in a pod"
            self._add(invalid_value(f"{where}.type", info.type, rule))
            return None
        self._choice(info.type, f"{where}.type", (_IN_CLUSTER, _FROM_FILE))
        if info.type != _FROM_FILE:
            return None
        path = Path(file or "")
        if not file:
            self._add(required(field_path))
        elif not path.is_absolute():
            self._add(invalid_value(field_path, file, "must be an absolute path"))
        elif not path.exists():
            self._add(invalid_value(field_path, file, f"error loading file: stat {file}: no such file or directory"))
        elif not path.is_file():
            self._add(invalid_value(field_path, file, "must be a regular file"))
        return path

    def _conditions(self, conditions: list[_Condition], where: str) -> Iterator[Expression]:
        if len(conditions) > _MOST_CONDITIONS:
            self.problems.append(f"{where}: Too many: {len(conditions)}: must have at most {_MOST_CONDITIONS} items")
            return
        seen: set[str] = set()
        for index, condition in enumerate(conditions):
            field_path, text = f"{where}[{index}].expression", condition.expression
            if _BLANK.fullmatch(text):
                self._add(required(field_path))
            elif text in seen:
                self._add(duplicate(field_path, text))
            else:
                seen.add(text)
                try:
                    yield ConfigExpression(text, ("request",), cel.BOOL)
                except CelError as error:
                    self._add(invalid_value(field_path, text, str(error)))

    def _seconds(self, text: str, where: str, *, most: float | None = None) -> float:
        try:
            seconds = parse_duration(text).seconds if text else 0.0
        except ValueError:
            self.problems.append(f"{where}: Invalid value: {quote(text)}: invalid duration")
            return 0.0
        if not seconds:
            self._add(required(where))
        elif seconds < 0 or (most is not None and seconds > most):
            rule = "must be > 0s" if most is None else f"must be > 0s and <= {most:.0f}s"
            self._add(invalid_value(where, text, rule))
        return seconds

    def _choice(self, value: str, where: str, choices: tuple[str, ...]) -> None:
        if not value:
            self._add(required(where))
        elif value not in choices:
            self._add(not_supported(where, value, choices))

    def _add(self, cause: Cause) -> None:
        self.problems.append(f"{cause.field}: {cause.message}")


def _failed(problem: str) -> str:
    return f"failed to load {KIND} from file: {problem}"
