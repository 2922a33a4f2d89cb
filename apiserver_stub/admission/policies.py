"""Policies in expressions: objects are judged without anybody being asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from apiserver_stub import objects
from apiserver_stub.admission import AdmissionPlugin, Call, Operation
from apiserver_stub.admission.reading import Reader, labels_of
from apiserver_stub.admission.webhooks import CONDITION_VARIABLES, condition_data
from apiserver_stub.admission.webhooks.matching import (
    matched_as,
    namespace_matches,
    never_asked,
    object_matches,
    read_selector,
)
from apiserver_stub.cel import CelError, Expression
from apiserver_stub.objects import Object
from apiserver_stub.resources.registry import Registry, Resource
from nodeagent.base import identity

_GROUP = identity.current().group("admissionregistration")
_POLICIES, _BINDINGS = f"{_GROUP}/validatingadmissionpolicies", f"{_GROUP}/validatingadmissionpolicybindings"
_POLICY_VARIABLES = (*CONDITION_VARIABLES, "params", "namespaceObject", "variables")
_AUDIT = identity.current().group("validation.policy.admission") + "/validation_failure"
_CODES = {"Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413, "Unauthorized": 401}


@dataclass(frozen=True, slots=True)
class Failure:
    """An expression that is not true of a request, or has no value."""

    message: str
    reason: str = "Invalid"


class Policy:
    """One policy, compiled."""

    def __init__(self, obj: Object) -> None:
        """Compile what *obj* holds.

        :raises CelError: an expression does not compile; a policy that is stored has none such.
        """
        spec = obj.get("spec") or {}
        self.name: str = obj["metadata"]["name"]
        self.fails_closed = spec.get("failurePolicy") != "Ignore"
        self.match: Object = spec.get("matchConstraints") or {}
        self.param_kind: Object = spec.get("paramKind") or {}
        self._conditions = [
            _compiled(item["expression"], CONDITION_VARIABLES) for item in spec.get("matchConditions") or ()
        ]
        self._variables = [(item["name"], _compiled(item["expression"])) for item in spec.get("variables") or ()]
        self._validations = [
            (
                item,
                _compiled(item["expression"]),
                _compiled(item["messageExpression"]) if item.get("messageExpression") else None,
            )
            for item in spec.get("validations") or ()
        ]
        self._annotations = [
            (item["key"], _compiled(item["valueExpression"])) for item in spec.get("auditAnnotations") or ()
        ]

    def applies(self, data: dict[str, Any]) -> bool:
        """Return whether all match conditions hold.

        :raises CelError: one has no value.
        """
        return all(expression.evaluate(data) is True for expression in self._conditions)

    def failures(self, data: dict[str, Any]) -> Iterator[Failure]:
        """Yield what is wrong with the request that *data* describes."""
        variables: dict[str, Any] = {}
        data = {**data, "variables": variables}
        for name, expression in self._variables:
            try:
                variables[name] = expression.evaluate(data)
            except CelError:
                continue  # who needs it fails in turn
        for item, expression, message in self._validations:
            try:
                if expression.evaluate(data) is True:
                    continue
            except CelError as error:
                if self.fails_closed:
                    yield Failure(f"expression '{item['expression']}' resulted in error: {error}")
                continue
            yield Failure(_message(item, message, data), item.get("reason") or "Invalid")

    def annotations(self, data: dict[str, Any]) -> Iterator[tuple[str, str]]:
        """Yield what the audit trail should tell."""
        for key, expression in self._annotations:
            try:
                value = expression.evaluate({**data, "variables": {}})
            except CelError:
                continue
            if isinstance(value, str) and value.strip():
                yield f"{self.name}/{key}", value


class ValidatingAdmissionPolicy(AdmissionPlugin):
    """Applies policies through their bindings (spec: admission.ValidatingAdmissionPolicy).

    Without the gate of the same name, or without its API served, there are none.
    """

    name = "ValidatingAdmissionPolicy"
    operations = ("CREATE", "UPDATE", "DELETE", "CONNECT")

    def __init__(self, reader: Reader, registry: Registry) -> None:
        self._reader, self._registry = reader, registry
        self._served = registry.find(_GROUP, "v1beta1", "validatingadmissionpolicies") is not None
        self._policies: tuple[list[Object], dict[str, Policy]] = ([], {})

    def concerns(self, resource: Resource, operation: Operation, subresource: str) -> bool:
        return self._served and not never_asked(resource)

    async def validate(self, call: Call) -> None:
        policies = self._current()
        if not policies:
            return
        namespace = self._reader.namespace(call.namespace) if call.resource.namespaced else {}
        refusals: list[tuple[str, Failure]] = []
        for binding in self._reader.every(_BINDINGS):
            spec = binding.get("spec") or {}
            policy = policies.get(spec.get("policyName") or "")
            if policy is None:
                continue
            seen_as = self._match(policy.match, call, namespace)
            if seen_as is None or not self._binding_matches(spec.get("matchResources"), call, namespace):
                continue
            refusals += self._apply(policy, binding, call, seen_as, namespace)
        for text, failure in refusals:
            error = call.refuse(text)
            error.code, error.reason = _CODES.get(failure.reason, 422), failure.reason
            error.details = {**(error.details or {}), "causes": [{"message": text}]}
            raise error

    def _apply(
        self, policy: Policy, binding: Object, call: Call, seen_as: Resource, namespace: Object
    ) -> Iterator[tuple[str, Failure]]:
        """Yield what is to be refused; warn and write down the rest."""
        spec, name = binding["spec"], binding["metadata"]["name"]
        actions = spec.get("validationActions") or ()
        for failure in self._failures(policy, spec, call, seen_as, namespace):
            if "Deny" in actions:
                text = f"ValidatingAdmissionPolicy '{policy.name}' with binding '{name}' denied request"
                yield f"{text}: {failure.message}", failure
            if "Warn" in actions:
                text = f"Validation failed for ValidatingAdmissionPolicy '{policy.name}' with binding '{name}'"
                call.request.warnings.append(f"{text}: {failure.message}")
            if "Audit" in actions:
                note = {"message": failure.message, "policy": policy.name, "binding": name}
                note |= {"validationActions": list(actions)}
                call.request.annotations[_AUDIT] = objects.encode([note]).decode()

    def _failures(
        self, policy: Policy, spec: Object, call: Call, seen_as: Resource, namespace: Object
    ) -> Iterator[Failure]:
        data = condition_data(call, seen_as) | {"params": None, "namespaceObject": namespace or None}
        try:
            if not policy.applies(data):
                return
        except CelError as error:
            if policy.fails_closed:
                yield Failure(f"failed to evaluate a match condition: {error}")
            return
        found = [None] if not policy.param_kind else self._params(policy.param_kind, spec.get("paramRef"), call)
        if not found and (spec.get("paramRef") or {}).get("parameterNotFoundAction") != "Allow":
            yield Failure("no params found for policy binding with `Deny` parameterNotFoundAction")
        for params in found:
            yield from policy.failures({**data, "params": params})
            for key, value in policy.annotations({**data, "params": params}):
                call.request.annotations[key] = value

    def _params(self, kind: Object, reference: Object | None, call: Call) -> list[Object | None]:
        group, _, version = str(kind.get("apiVersion") or "").rpartition("/")
        resource = next(
            (
                item
                for item in self._registry
                if (item.group, item.version, item.kind) == (group, version, kind.get("kind"))
            ),
            None,
        )
        if resource is None or not reference:
            return []
        namespace = (reference.get("namespace") or call.namespace) if resource.namespaced else ""
        if name := reference.get("name"):
            found = self._reader.find(resource.storage, name, namespace)
            return [found] if found is not None else []
        selector = read_selector(reference.get("selector"))
        return [item for item in self._reader.every(resource.storage, namespace) if selector.matches(labels_of(item))]

    def _match(self, match: Object, call: Call, namespace: Object) -> Resource | None:
        """Return the resource as which *match* is about the request, ``None`` when it is not."""
        how = match.get("matchPolicy") or ""
        if not namespace_matches(read_selector(match.get("namespaceSelector")), call, namespace):
            return None
        if not object_matches(read_selector(match.get("objectSelector")), call):
            return None
        if matched_as(match.get("excludeResourceRules") or (), how, call, self._registry) is not None:
            return None
        return matched_as(match.get("resourceRules") or (), how, call, self._registry)

    def _binding_matches(self, match: Object | None, call: Call, namespace: Object) -> bool:
        if not match:
            return True
        if match.get("resourceRules"):
            return self._match(match, call, namespace) is not None
        every = [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*", "*/*"]}]
        return self._match({**match, "resourceRules": every}, call, namespace) is not None

    def _current(self) -> dict[str, Policy]:
        found = self._reader.every(_POLICIES)
        if found is not self._policies[0]:
            self._policies = found, {item["metadata"]["name"]: Policy(item) for item in found}
        return self._policies[1]


def _compiled(text: str, variables: tuple[str, ...] = _POLICY_VARIABLES) -> Expression:
    return Expression(text, variables, nullable=True)


def _message(item: Object, expression: Expression | None, data: dict[str, Any]) -> str:
    if expression is not None:
        try:
            value = expression.evaluate(data)
        except CelError:
            value = None
        if isinstance(value, str) and value.strip() and "\n" not in value:
            return value
    return str(item.get("message") or f"failed expression: {str(item['expression']).strip()}")
