"""Configuration of JWT authentication, from the ``oidc-*`` options or an ``AuthenticationConfiguration`` file.

spec: opt.authentication-config, opt.oidc-issuer-url and its siblings; gate.StructuredAuthenticationConfiguration
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from apiserver_stub import cel
from apiserver_stub.apimachinery.status import quote
from apiserver_stub.cel import CelError, Expression
from nodeagent.base import yamlsafe
from nodeagent.base.identity import Identity
from nodeagent.base.names import subdomain_problems
from nodeagent.base.structs import Struct

KIND = "AuthenticationConfiguration"
_VERSION = "v1alpha1"
_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"

_MAPPING = {"claim": "", "prefix": "", "expression": ""}
_SCHEMA: dict[str, Any] = {
    "apiVersion": "",
    "kind": "",
    "jwt": [
        {
            "issuer": {"url": "", "certificateAuthority": "", "audiences": [""], "audienceMatchPolicy": ""},
            "claimValidationRules": [{"claim": "", "requiredValue": "", "expression": "", "message": ""}],
            "claimMappings": {
                "username": _MAPPING,
                "groups": _MAPPING,
                "uid": {"claim": "", "expression": ""},
                "extra": [{"key": "", "valueExpression": ""}],
            },
            "userValidationRules": [{"expression": "", "message": ""}],
        }
    ],
}
"""Supported fields of the file; other fields are errors."""


class JwtConfigError(ValueError):
    """The configuration is invalid; the text has one line per error."""


class Mapped(Struct, frozen=True):
    """Mapping of a user attribute: from a claim with an optional prefix, from an expression, or none."""

    claim: str = ""
    prefix: str = ""
    expression: Expression | None = None


class Rule(Struct, frozen=True):
    """Validation rule for the claims, or for the user that results from them."""

    expression: Expression
    message: str = ""


class JwtConfig(Struct, frozen=True):
    """Configuration of a trusted issuer, and of the mapping from its claims to users."""

    issuer: str
    audiences: tuple[str, ...]
    username: Mapped
    groups: Mapped = Mapped()
    uid: Mapped = Mapped()
    extra: tuple[tuple[str, Expression], ...] = ()
    required: tuple[tuple[str, str], ...] = ()
    claim_rules: tuple[Rule, ...] = ()
    user_rules: tuple[Rule, ...] = ()
    authority: str = ""
    """CA bundle (PEM); empty for that of the system."""
    algorithms: tuple[str, ...] = ("RS256",)


def load(path: Path, identity: Identity) -> JwtConfig:
    """Return the configuration of the only issuer in the file *path*.

    :raises JwtConfigError: the file cannot be read or is invalid.
    """
    try:
        document = yamlsafe.load(path.read_bytes())
    except (OSError, yamlsafe.YamlError) as error:
        raise JwtConfigError(f"{path}: {error}") from error
    if not isinstance(document, dict):
        raise JwtConfigError(f"{path}: expected {KIND}")
    version = f"{identity.group('apiserver.config')}/{_VERSION}"
    if (document.get("apiVersion"), document.get("kind")) != (version, KIND):
        raise JwtConfigError(f'{path}: expected {KIND} of version "{version}"')
    if wrong := list(_schema_errors(document, _SCHEMA, "")):
        raise JwtConfigError("\n".join(f"{path}: strict decoding error: {problem}" for problem in wrong))
    entries = document.get("jwt") or []
    if len(entries) != 1:
        rule = "Too many: %d: must have at most 1 items" % len(entries)  # noqa: UP031 - one template for both
        raise JwtConfigError(f"jwt: {rule if entries else 'Required value: at least one jwt is required'}")
    reader = _Reader()
    config = reader.read(entries[0])
    if reader.problems:
        raise JwtConfigError("\n".join(reader.problems))
    return config


def issuer_problems(url: str, where: str) -> Iterator[str]:
    """Yield the validation errors of an issuer URL."""
    if not url:
        yield f"{where}: Required value: URL is required"
        return
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises if the port is not a number
    except ValueError as error:
        yield f"{where}: Invalid value: {quote(url)}: {error}"
        return
    if parts.scheme != "https":
        yield f"{where}: Invalid value: {quote(url)}: URL scheme must be https"
    if parts.username is not None:
        yield f"{where}: Invalid value: {quote(url)}: URL must not contain a username or password"
    if parts.query:
        yield f"{where}: Invalid value: {quote(url)}: URL must not contain a query"
    if parts.fragment:
        yield f"{where}: Invalid value: {quote(url)}: URL must not contain a fragment"


class _Reader:
    """Reader of one issuer; collects the validation errors."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def read(self, entry: Mapping[str, Any]) -> JwtConfig:
        where = "jwt[0]"
        issuer, mappings = entry.get("issuer") or {}, entry.get("claimMappings") or {}
        url = issuer.get("url") or ""
        self.problems += issuer_problems(url, f"{where}.issuer.url")
        required, claim_rules = self._claim_rules(entry.get("claimValidationRules") or [], where)
        return JwtConfig(
            issuer=url,
            audiences=self._audiences(issuer, f"{where}.issuer"),
            username=self._mapped(mappings, "username", f"{where}.claimMappings", needed=True),
            groups=self._mapped(mappings, "groups", f"{where}.claimMappings"),
            uid=self._mapped(mappings, "uid", f"{where}.claimMappings", prefixed=False),
            extra=self._extra(mappings.get("extra") or [], f"{where}.claimMappings.extra"),
            required=required,
            claim_rules=claim_rules,
            user_rules=self._user_rules(entry.get("userValidationRules") or [], f"{where}.userValidationRules"),
            authority=self._authority(issuer.get("certificateAuthority") or "", f"{where}.issuer"),
        )

    def _audiences(self, issuer: Mapping[str, Any], where: str) -> tuple[str, ...]:
        audiences, policy = issuer.get("audiences") or [], issuer.get("audienceMatchPolicy") or ""
        if not audiences:
            self._add(f"{where}.audiences", f"Required value: at least one {where}.audiences is required")
        for index, audience in enumerate(audiences):
            if not audience:
                self._add(f"{where}.audiences[{index}]", "Required value: audience can't be empty")
            if audience in audiences[:index]:
                self._add(f"{where}.audiences[{index}]", f"Duplicate value: {quote(audience)}")
        if policy != "MatchAny" and (policy or len(audiences) > 1):
            several = "must be MatchAny for multiple audiences"
            rule = several if len(audiences) > 1 else "must be empty or MatchAny for single audience"
            self._add(f"{where}.audienceMatchPolicy", f"Invalid value: {quote(policy)}: audienceMatchPolicy {rule}")
        return tuple(audiences)

    def _authority(self, pem: str, where: str) -> str:
        if pem:
            from cryptography import x509

            try:
                x509.load_pem_x509_certificates(pem.encode())
            except ValueError:
                rule = "data does not contain any valid RSA or ECDSA certificates"
                self._add(f"{where}.certificateAuthority", f'Invalid value: "<omitted>": {rule}')
        return pem

    def _claim_rules(
        self, rules: list[dict[str, Any]], where: str
    ) -> tuple[tuple[tuple[str, str], ...], tuple[Rule, ...]]:
        required: dict[str, str] = {}
        expressions: dict[str, Rule] = {}
        for index, rule in enumerate(rules):
            path = f"{where}.claimValidationRules[{index}]"
            claim, text, message = rule.get("claim") or "", rule.get("expression") or "", rule.get("message") or ""
            value = rule.get("requiredValue") or ""
            if claim and text:
                self._add(path, f"Invalid value: {quote(claim)}: claim and expression can't both be set")
            elif not claim and not text:
                self._add(path, "Required value: claim or expression is required")
            elif claim:
                if message:
                    rule_ = "message can't be set when claim is set"
                    self._add(f"{path}.message", f"Invalid value: {quote(message)}: {rule_}")
                if claim in required:
                    self._add(f"{path}.claim", f"Duplicate value: {quote(claim)}")
                required[claim] = value
            elif value:
                rule_ = "requiredValue can't be set when expression is set"
                self._add(f"{path}.requiredValue", f"Invalid value: {quote(value)}: {rule_}")
            elif text in expressions:
                self._add(f"{path}.expression", f"Duplicate value: {quote(text)}")
            elif compiled := self._compile(text, f"{path}.expression", returns=cel.BOOL):
                expressions[text] = Rule(compiled, message)
        return tuple(required.items()), tuple(expressions.values())

    def _user_rules(self, rules: list[dict[str, Any]], where: str) -> tuple[Rule, ...]:
        found: dict[str, Rule] = {}
        for index, rule in enumerate(rules):
            path, text = f"{where}[{index}].expression", rule.get("expression") or ""
            if not text:
                self._add(path, "Required value: expression is required")
            elif text in found:
                self._add(path, f"Duplicate value: {quote(text)}")
            elif compiled := self._compile(text, path, variable="user", returns=cel.BOOL):
                found[text] = Rule(compiled, rule.get("message") or "")
        return tuple(found.values())

    def _mapped(
        self, mappings: Mapping[str, Any], name: str, where: str, *, needed: bool = False, prefixed: bool = True
    ) -> Mapped:
        mapping, path = mappings.get(name) or {}, f"{where}.{name}"
        claim, text, prefix = mapping.get("claim") or "", mapping.get("expression") or "", mapping.get("prefix")
        if claim and text:
            self._add(path, 'Invalid value: "": claim and expression can\'t both be set')
        elif text:
            if prefix is not None:
                rule = "prefix can't be set when expression is set"
                self._add(f"{path}.prefix", f"Invalid value: {quote(prefix)}: {rule}")
            return Mapped(expression=self._compile(text, f"{path}.expression"))
        elif claim and prefixed and prefix is None:
            rule = "prefix is required when claim is set. It can be set to an empty string to disable prefixing"
            self._add(f"{path}.prefix", f"Required value: {rule}")
        elif needed and not claim:
            self._add(path, "Required value: claim or expression is required")
        return Mapped(claim, prefix or "")

    def _extra(self, entries: list[dict[str, Any]], where: str) -> tuple[tuple[str, Expression], ...]:
        found: dict[str, Expression | None] = {}
        for index, entry in enumerate(entries):
            path, key, text = f"{where}[{index}]", entry.get("key") or "", entry.get("valueExpression") or ""
            self._check_domain_path(key, f"{path}.key")
            if key != key.lower():
                self._add(f"{path}.key", f"Invalid value: {quote(key)}: key must be lowercase")
            if key in found:
                self._add(f"{path}.key", f"Duplicate value: {quote(key)}")
            elif not text:
                self._add(f"{path}.valueExpression", "Required value: valueExpression is required")
            else:
                found[key] = self._compile(text, f"{path}.valueExpression")
        return tuple((key, expression) for key, expression in found.items() if expression is not None)

    def _check_domain_path(self, key: str, where: str) -> None:
        domain, _, path = key.partition("/")
        if not key:
            self._add(where, "Required value")
        elif not domain or not path:
            rule = 'must be a domain-prefixed path (such as "acme.io/foo")'
            self._add(where, f"Invalid value: {quote(key)}: {rule}")
        elif problems := subdomain_problems(domain):
            for problem in problems:
                self._add(where, f"Invalid value: {quote(domain)}: {problem}")
        elif not re.fullmatch(_PATH, path):
            rule = f"Invalid path (regex used for validation is '{_PATH}')"
            self._add(where, f"Invalid value: {quote(path)}: {rule}")

    def _compile(self, text: str, where: str, *, variable: str = "claims", returns: str = cel.DYN) -> Expression | None:
        try:
            return Expression(text, (variable,), returns)
        except CelError as error:
            self._add(where, f"Invalid value: {quote(text)}: {error}")
            return None

    def _add(self, where: str, problem: str) -> None:
        self.problems.append(f"{where}: {problem}")


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
    elif not isinstance(value, str):
        yield f'"{where}" must be text'
