"""Configurations of webhooks, and policies, by which others have a say in requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from apiserver_stub.admission.webhooks.client import url_problem
from apiserver_stub.cel import CelError, Expression
from apiserver_stub.objects import Object, dig
from apiserver_stub.resources.columns import AGE, NAME
from apiserver_stub.resources.gated_fields import drop_from_webhooks
from apiserver_stub.resources.registry import Column, Resource, Strategy, Subresource
from apiserver_stub.status import Cause, duplicate, invalid_value, not_supported, required
from apiserver_stub.strategic import POLICY, WEBHOOKS
from apiserver_stub.validation.metadata import MetadataRules
from apiserver_stub.validation.names import label_problems, subdomain_problems
from nodeagent.base import identity

if TYPE_CHECKING:
    from apiserver_stub.options import Options
    from nodeagent.base.gates import FeatureGates

_GROUP = identity.current().group("admissionregistration")
_METADATA_RULES = MetadataRules(changes=0, standard_finalizers=False)
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_REVIEW_VERSIONS = ("v1", "v1beta1")
_CONDITION_VARIABLES = ("object", "oldObject", "request")
POLICY_VARIABLES = (*_CONDITION_VARIABLES, "params", "namespaceObject", "variables")
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized")
_ACTIONS = ("Audit", "Deny", "Warn")


class WebhookConfigurationStrategy(Strategy):
    """Webhooks have names of their own, a service, and rules."""

    counted = ("webhooks",)

    def __init__(self, gates: FeatureGates, *, mutating: bool) -> None:
        self._gates, self._mutating = gates, mutating

    def default(self, new: Object) -> None:
        for hook in new.get("webhooks") or ():
            hook.setdefault("failurePolicy", "Fail")
            hook.setdefault("matchPolicy", "Equivalent")
            hook.setdefault("namespaceSelector", {})
            hook.setdefault("objectSelector", {})
            hook.setdefault("timeoutSeconds", 10)
            if self._mutating:
                hook.setdefault("reinvocationPolicy", "Never")
            _default_rules(hook.get("rules"))
            if service := dig(hook, ("clientConfig", "service")):
                service.setdefault("port", 443)

    def prepare_create(self, new: Object) -> None:
        drop_from_webhooks(self._gates, new)

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        super().prepare_update(new, old, subresource)
        drop_from_webhooks(self._gates, new, old)

    def validate(self, new: Object) -> list[Cause]:
        causes: list[Cause] = []
        seen: set[str] = set()
        for index, hook in enumerate(new.get("webhooks") or ()):
            field, name = f"webhooks[{index}]", hook.get("name") or ""
            if name in seen:
                causes.append(duplicate(f"{field}.name", name))
            seen.add(name)
            causes += _check_hook(field, hook, mutating=self._mutating)
        return causes


class PolicyStrategy(Strategy):
    """Expressions compile; the status is the server's."""

    counted = ("spec",)
    status_keeps = ("labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp", "selfLink")

    def default(self, new: Object) -> None:
        spec = new.setdefault("spec", {})
        spec.setdefault("failurePolicy", "Fail")
        _default_match(spec.get("matchConstraints"))

    def prepare_create(self, new: Object) -> None:
        new["status"] = {}

    def validate(self, new: Object) -> list[Cause]:
        spec = new.get("spec") or {}
        causes = []
        if spec.get("failurePolicy") not in ("Fail", "Ignore"):
            causes.append(not_supported("spec.failurePolicy", spec.get("failurePolicy"), ("Fail", "Ignore")))
        match = spec.get("matchConstraints")
        if not match:
            causes.append(required("spec.matchConstraints"))
        elif not match.get("resourceRules"):
            causes.append(required("spec.matchConstraints.resourceRules"))
        else:
            causes += _check_rules("spec.matchConstraints.resourceRules", match["resourceRules"])
        validations = spec.get("validations") or []
        if not validations and not spec.get("auditAnnotations"):
            detail = "validations or auditAnnotations must contain at least one item"
            causes += [required("spec.validations", detail), required("spec.auditAnnotations", detail)]
        causes += _check_conditions("spec.matchConditions", spec.get("matchConditions"))
        for index, item in enumerate(validations):
            field = f"spec.validations[{index}]"
            causes += _check_expression(f"{field}.expression", item.get("expression"), POLICY_VARIABLES)
            if item.get("messageExpression"):
                causes += _check_expression(f"{field}.messageExpression", item["messageExpression"], POLICY_VARIABLES)
            if item.get("reason") not in (None, *_REASONS):
                causes.append(not_supported(f"{field}.reason", item["reason"], _REASONS))
            if "\n" in (item.get("message") or ""):
                detail = "message must not contain line breaks"
                causes.append(invalid_value(f"{field}.message", item["message"], detail))
        for member, text in (("variables", "expression"), ("auditAnnotations", "valueExpression")):
            for index, item in enumerate(spec.get(member) or ()):
                field = f"spec.{member}[{index}]"
                causes += _check_expression(f"{field}.{text}", item.get(text), POLICY_VARIABLES)
        return causes


class BindingStrategy(Strategy):
    """A binding names its policy and what happens when that fails."""

    def default(self, new: Object) -> None:
        _default_match((new.get("spec") or {}).get("matchResources"))

    def validate(self, new: Object) -> list[Cause]:
        spec = new.get("spec") or {}
        causes = [] if spec.get("policyName") else [required("spec.policyName")]
        actions = spec.get("validationActions") or []
        field = "spec.validationActions"
        if not actions:
            causes.append(required(field, "at least one validation action is required"))
        for index, action in enumerate(actions):
            if action not in _ACTIONS:
                causes.append(not_supported(f"{field}[{index}]", action, _ACTIONS))
        if "Deny" in actions and "Warn" in actions:
            detail = "must not contain both Deny and Warn (repeating the same validation failure information in the "
            detail += "API response and headers serves no purpose)"
            causes.append(invalid_value(field, " ".join(actions), detail))
        reference = spec.get("paramRef")
        if reference is not None and bool(reference.get("name")) == (reference.get("selector") is not None):
            causes.append(required("spec.paramRef.name", "exactly one of name or selector must be specified"))
        if reference is not None and reference.get("parameterNotFoundAction") not in ("Allow", "Deny"):
            causes.append(required("spec.paramRef.parameterNotFoundAction"))
        return causes


def resources(options: Options) -> list[Resource]:
    hooks = Column("Webhooks", lambda obj: len(obj.get("webhooks") or ()), type="integer")
    found = [
        Resource(
            _GROUP,
            "v1",
            f"{word}WebhookConfiguration",
            f"{word.lower()}webhookconfigurations",
            unconditional_update=False,
            namespaced=False,
            categories=("api-extensions",),
            metadata_rules=_METADATA_RULES,
            strategy=WebhookConfigurationStrategy(options.gates, mutating=word == "Mutating"),
            patch_schema=WEBHOOKS,
            columns=(NAME, hooks, AGE),
        )
        for word in ("Mutating", "Validating")
    ]
    if options.gates.enabled("ValidatingAdmissionPolicy"):
        validations = Column("Validations", lambda obj: len(dig(obj, ("spec", "validations")) or ()), type="integer")
        found += [
            Resource(
                _GROUP,
                "v1beta1",
                "ValidatingAdmissionPolicy",
                "validatingadmissionpolicies",
                namespaced=False,
                categories=("api-extensions",),
                metadata_rules=_METADATA_RULES,
                subresource_rules=_METADATA_RULES,
                strategy=PolicyStrategy(),
                patch_schema=POLICY,
                subresources=(Subresource("status"),),
                columns=(NAME, validations, AGE),
            ),
            Resource(
                _GROUP,
                "v1beta1",
                "ValidatingAdmissionPolicyBinding",
                "validatingadmissionpolicybindings",
                namespaced=False,
                categories=("api-extensions",),
                metadata_rules=_METADATA_RULES,
                strategy=BindingStrategy(),
                columns=(NAME, Column("PolicyName", lambda obj: dig(obj, ("spec", "policyName")) or ""), AGE),
            ),
        ]
    return found


def _default_match(match: Any) -> None:
    if isinstance(match, dict):
        match.setdefault("matchPolicy", "Equivalent")
        match.setdefault("namespaceSelector", {})
        match.setdefault("objectSelector", {})
        _default_rules(match.get("resourceRules"))
        _default_rules(match.get("excludeResourceRules"))


def _default_rules(rules: Any) -> None:
    for rule in rules or ():
        rule.setdefault("scope", "*")


def _check_hook(field: str, hook: Object, *, mutating: bool) -> Iterator[Cause]:
    name = hook.get("name") or ""
    if not name:
        yield required(f"{field}.name")
    for problem in subdomain_problems(name) if name else ():
        yield invalid_value(f"{field}.name", name, problem)
    if name and len(name.split(".")) < 3:
        detail = "should be a domain with at least three segments separated by dots"
        yield invalid_value(f"{field}.name", name, detail)
    choices: list[tuple[str, Sequence[str]]] = [
        ("failurePolicy", ("Fail", "Ignore")),
        ("matchPolicy", ("Equivalent", "Exact")),
    ]
    if mutating:
        choices.append(("reinvocationPolicy", ("IfNeeded", "Never")))
    for member, values in choices:
        if hook.get(member) not in values:
            yield not_supported(f"{field}.{member}", hook.get(member) or "", values)
    effects = hook.get("sideEffects")
    if effects is None:
        yield required(f"{field}.sideEffects", "must specify one of None, NoneOnDryRun")
    elif effects not in ("None", "NoneOnDryRun"):
        yield not_supported(f"{field}.sideEffects", effects, ("None", "NoneOnDryRun"))
    if not 1 <= hook.get("timeoutSeconds", 10) <= 30:
        detail = "the timeout value must be between 1 and 30 seconds"
        yield invalid_value(f"{field}.timeoutSeconds", hook["timeoutSeconds"], detail)
    yield from _check_versions(f"{field}.admissionReviewVersions", hook.get("admissionReviewVersions") or [])
    yield from _check_client(f"{field}.clientConfig", hook.get("clientConfig") or {})
    yield from _check_rules(f"{field}.rules", hook.get("rules") or [])
    yield from _check_conditions(f"{field}.matchConditions", hook.get("matchConditions"))


def _check_versions(field: str, versions: Sequence[str]) -> Iterator[Cause]:
    if not versions:
        yield required(field, f"must specify one of {', '.join(_REVIEW_VERSIONS)}")
        return
    for index, version in enumerate(versions):
        if version in versions[:index]:
            yield invalid_value(f"{field}[{index}]", version, "duplicate version")
        for problem in label_problems(version):
            yield invalid_value(f"{field}[{index}]", version, problem)
    if not set(versions) & set(_REVIEW_VERSIONS):
        detail = f"must include at least one of {', '.join(_REVIEW_VERSIONS)}"
        yield invalid_value(field, " ".join(versions), detail)


def _check_client(field: str, config: Object) -> Iterator[Cause]:
    url: Any = config.get("url")
    service: Any = config.get("service")
    if (url is None) == (service is None):
        yield required(field, "exactly one of url or service is required")
    elif url is not None:
        if problem := url_problem(url):
            yield invalid_value(f"{field}.url", url, problem)
    else:
        for member in ("name", "namespace"):
            if not service.get(member):
                yield required(f"{field}.service.{member}", f"service {member} is required")
        if not 1 <= service.get("port", 443) <= 65535:
            detail = "port is not valid: must be between 1 and 65535, inclusive"
            yield invalid_value(f"{field}.service.port", service["port"], detail)
        if (path := service.get("path")) and not path.startswith("/"):
            yield invalid_value(f"{field}.service.path", path, "must start with a '/'")


def _check_rules(field: str, rules: Sequence[Object]) -> Iterator[Cause]:
    for index, rule in enumerate(rules):
        place = f"{field}[{index}]"
        for member in ("operations", "apiGroups", "apiVersions", "resources"):
            values = rule.get(member) or []
            if not values:
                yield required(f"{place}.{member}")
            elif "*" in values and len(values) > 1 and member != "resources":
                detail = "if '*' is present, must not specify other "
                detail += {"apiGroups": "API groups", "apiVersions": "API versions"}.get(member, member)
                yield invalid_value(f"{place}.{member}", " ".join(values), detail)
        for number, operation in enumerate(rule.get("operations") or ()):
            if operation not in _OPERATIONS:
                yield not_supported(f"{place}.operations[{number}]", operation, _OPERATIONS)
        if rule.get("scope", "*") not in ("*", "Cluster", "Namespaced"):
            yield not_supported(f"{place}.scope", rule["scope"], ("*", "Cluster", "Namespaced"))


def _check_conditions(field: str, conditions: Sequence[Object] | None) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, item in enumerate(conditions or ()):
        place, name = f"{field}[{index}]", item.get("name") or ""
        if not name:
            yield required(f"{place}.name")
        elif name in seen:
            yield duplicate(f"{place}.name", name)
        seen.add(name)
        yield from _check_expression(f"{place}.expression", item.get("expression"), _CONDITION_VARIABLES)


def _check_expression(field: str, text: Any, variables: tuple[str, ...]) -> Iterator[Cause]:
    if not text:
        yield required(field)
        return
    try:
        Expression(text, variables, nullable=True)
    except CelError as error:
        yield invalid_value(field, text, str(error))
