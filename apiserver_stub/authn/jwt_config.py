"""Configuration of a trusted issuer, from the ``oidc-*`` options or an entry of the authentication configuration.

spec: opt.oidc-issuer-url and its siblings
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from apiserver_stub import cel
from apiserver_stub.apimachinery.status import quote
from apiserver_stub.cel import CelError, Expression
from apiserver_stub.cel.config_expression import ConfigExpression
from nodeagent.base.names import subdomain_problems
from nodeagent.base.structs import Struct
from nodeagent.base.tls import parse_errors

_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"

_MAPPING = {"claim": "", "prefix": "", "expression": ""}
ISSUER_FIELDS: dict[str, Any] = {
    "issuer": {
        "url": "",
        "discoveryURL": "",
        "certificateAuthority": "",
        "audiences": [""],
        "audienceMatchPolicy": "",
        "egressSelectorType": "",
    },
    "claimValidationRules": [{"claim": "", "requiredValue": "", "expression": "", "message": ""}],
    "claimMappings": {
        "username": _MAPPING,
        "groups": _MAPPING,
        "uid": {"claim": "", "expression": ""},
        "extra": [{"key": "", "valueExpression": ""}],
    },
    "userValidationRules": [{"expression": "", "message": ""}],
}
"""Fields of an entry."""
EGRESS_TYPES = ("cluster", "controlplane")


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
    discovery_url: str = ""
    """URL of the discovery document; empty for the one below the URL of the issuer."""
    egress: str = ""
    """Name of the egress for connections to the issuer; empty for direct ones."""


class IssuerRules(Struct, frozen=True):
    """Rules of a release and of other options for issuers."""

    algorithms: tuple[str, ...] = ("RS256",)
    selects_egress: bool = False
    """``True`` if issuers may select an egress.

    spec: gate.StructuredAuthenticationConfigurationEgressSelector
    """
    reserved: tuple[str, ...] = ()
    """Issuers of service account tokens, which other issuers must not impersonate."""


def read_issuer(entry: Mapping[str, Any], where: str, rules: IssuerRules) -> tuple[JwtConfig, list[str]]:
    """Return the configuration in *entry*, and its validation errors.

    :param where: path of the entry in the file.
    """
    reader = _Reader(where, rules)
    return reader.read(entry), reader.problems


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

    def __init__(self, where: str, rules: IssuerRules) -> None:
        self._where, self._rules = where, rules
        self.problems: list[str] = []

    def read(self, entry: Mapping[str, Any]) -> JwtConfig:
        where = self._where
        issuer, mappings = entry.get("issuer") or {}, entry.get("claimMappings") or {}
        url = issuer.get("url") or ""
        self.problems += issuer_problems(url, f"{where}.issuer.url")
        if url and url in self._rules.reserved:
            rule = f"URL must not overlap with disallowed issuers: [{' '.join(sorted(self._rules.reserved))}]"
            self._add(f"{where}.issuer.url", f"Invalid value: {quote(url)}: {rule}")
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
            algorithms=self._rules.algorithms,
            discovery_url=self._discovery_url(issuer.get("discoveryURL") or "", url, f"{where}.issuer.discoveryURL"),
            egress=self._egress(issuer.get("egressSelectorType") or "", f"{where}.issuer.egressSelectorType"),
        )

    def _discovery_url(self, discovery_url: str, url: str, where: str) -> str:
        if discovery_url:
            if url and discovery_url.rstrip("/") == url.rstrip("/"):
                self._add(where, f"Invalid value: {quote(discovery_url)}: discoveryURL must be different from URL")
            self.problems += issuer_problems(discovery_url, where)
        return discovery_url

    def _egress(self, egress: str, where: str) -> str:
        if egress and not self._rules.selects_egress:
            gate = "StructuredAuthenticationConfigurationEgressSelector"
            rule = f"egress selector is not supported when {gate} feature gate is disabled"
            self._add(where, f"Invalid value: {quote(egress)}: {rule}")
        elif egress and egress not in EGRESS_TYPES:
            listed = ", ".join(f'"{name}"' for name in EGRESS_TYPES)
            self._add(where, f"Unsupported value: {quote(egress)}: supported values: {listed}")
        return egress

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
            except parse_errors():
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
            return ConfigExpression(text, (variable,), returns)
        except CelError as error:
            self._add(where, f"Invalid value: {quote(text)}: {error}")
            return None

    def _add(self, where: str, problem: str) -> None:
        self.problems.append(f"{where}: {problem}")
