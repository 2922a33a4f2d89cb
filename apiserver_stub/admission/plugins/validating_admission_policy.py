"""ValidatingAdmissionPolicy admission plugin: apply admission policies through their bindings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Self

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.context import AdmissionContext
from apiserver_stub.admission.listers import Lister
from apiserver_stub.admission.manifest_config import load_manifests
from apiserver_stub.admission.manifests import Manifests
from apiserver_stub.admission.policy_evaluation import Failure, ValidatingPolicy, Validation
from apiserver_stub.admission.policy_matching import PolicyMatcher
from apiserver_stub.admission.policy_source import PolicySource
from apiserver_stub.admission.webhooks.conditions import Views, condition_data, views_of
from apiserver_stub.admission.webhooks.matching import is_exempt
from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.cel import CelError
from apiserver_stub.cel.authorization import Authorizer, Decide
from apiserver_stub.kinds.registry import Registry, Resource
from apiserver_stub.verbs.admission import AdmissionRequest, Operation
from nodeagent.base.identity import Identity

_POLICIES, _BINDINGS = "validatingadmissionpolicies", "validatingadmissionpolicybindings"
_KINDS = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
_Matched = tuple[ValidatingPolicy, list[Object], Resource]
"""A policy with its bindings, and the resource as which it matches a request."""
_CODES = {"Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413, "Unauthorized": 401}


class ValidatingAdmissionPolicy(AdmissionPlugin):
    """Apply admission policies through their bindings (spec: admission.ValidatingAdmissionPolicy).

    No policies apply unless the feature gate of the same name is enabled and the API is served.
    """

    name = "ValidatingAdmissionPolicy"
    order = 3300
    enabled_by_default = True
    operations = ("CREATE", "UPDATE", "DELETE", "CONNECT")

    def __init__(
        self,
        lister: Lister,
        registry: Registry,
        decide: Decide,
        identity: Identity,
        manifests: Manifests | None = None,
    ) -> None:
        self._decide = decide
        self._matcher = PolicyMatcher(lister, registry)
        self._group = identity.group("admissionregistration")
        self._served = any((item.group, item.plural) == (self._group, _POLICIES) for item in registry)
        self._audit_failure = identity.group("validation.policy.admission") + "/validation_failure"
        self._policies = PolicySource(lister, self._group, _POLICIES, _BINDINGS, ValidatingPolicy, manifests)

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        manifests = await load_manifests(cls.name, context, _KINDS, f"{cls.name}Configuration")
        return cls(context.lister, context.registry, context.authorize, context.identity, manifests)

    def concerns(self, resource: Resource, operation: Operation, subresource: str) -> bool:
        return self._policies.has_manifests or self._served

    async def validate(self, call: AdmissionRequest) -> None:
        policies = self._policies.current(only_static=is_exempt(call.resource, self._group))
        if not policies:
            return
        authorizer, request = Authorizer(call.request.user, self._decide), call.request
        matched = list(self._matched(policies, call))
        views = await views_of(call, (seen_as for _, _, seen_as in matched))
        warnings, annotations = [*request.warnings], {**request.annotations}

        def evaluate() -> list[tuple[str, Failure]]:
            request.warnings[:] = warnings
            request.annotations.clear()
            request.annotations.update(annotations)
            return self._denials(matched, call, views)

        for text, failure in await authorizer.evaluate(evaluate):
            error = call.forbidden(text)
            error.code, error.reason = _CODES.get(failure.reason, 422), failure.reason
            error.details = {**(error.details or {}), "causes": [{"message": text}]}
            raise error

    def _matched(
        self, policies: Iterable[tuple[ValidatingPolicy, list[Object]]], call: AdmissionRequest
    ) -> Iterator[_Matched]:
        """Yield the policies that match the request."""
        namespace = self._matcher.namespace_of(call)
        for policy, bindings in policies:
            if (seen_as := self._matcher.match(policy.match, call, namespace)) is not None:
                yield policy, bindings, seen_as

    def _denials(self, matched: Iterable[_Matched], call: AdmissionRequest, views: Views) -> list[tuple[str, Failure]]:
        """Return the failures that deny the request; add warnings and audit annotations for the others."""
        namespace = self._matcher.namespace_of(call)
        denials: list[tuple[str, Failure]] = []
        for policy, bindings, seen_as in matched:
            annotations: dict[str, list[str]] = {}
            for binding in bindings:
                spec = binding.get("spec") or {}
                if spec.get("policyName") == policy.name and self._matcher.binding_matches(
                    spec.get("matchResources"), call, namespace
                ):
                    denials += self._apply(policy, binding, call, seen_as, views, namespace, annotations)
            for key, values in annotations.items():
                call.request.annotations[f"{policy.name}/{key}"] = ", ".join(dict.fromkeys(values))
        return denials

    def _apply(
        self,
        policy: ValidatingPolicy,
        binding: Object,
        call: AdmissionRequest,
        seen_as: Resource,
        views: Views,
        namespace: Object,
        annotations: dict[str, list[str]],
    ) -> Iterator[tuple[str, Failure]]:
        """Yield the failures that deny the request; add warnings, and audit annotations to *annotations*."""
        spec, name = binding["spec"], binding["metadata"]["name"]
        actions = spec.get("validationActions") or ()
        denied = f"ValidatingAdmissionPolicy '{policy.name}' with binding '{name}' denied request"
        data = condition_data(call, seen_as, views) | {"params": None, "namespaceObject": namespace or None}
        evaluations, failures = self._evaluations(policy, spec, call, data)
        failures += [failure for evaluation in evaluations for failure in evaluation.failures()]
        for failure in failures:
            if "Deny" in actions:
                yield f"{denied}: {failure.message}", failure
            if "Warn" in actions:
                text = f"Validation failed for ValidatingAdmissionPolicy '{policy.name}' with binding '{name}'"
                call.request.warnings.append(f"{text}: {failure.message}")
            if "Audit" in actions:
                note = {"message": failure.message, "policy": policy.name, "binding": name}
                note |= {"expressionIndex": failure.index, "validationActions": list(actions)}
                call.request.annotations.setdefault(self._audit_failure, objects.encode([note]).decode())
        for result in (item for evaluation in evaluations for item in evaluation.annotations()):
            if isinstance(result, Failure):  # Denies the request regardless of the binding's actions.
                yield f"{denied}: {result.message}", result
            else:
                annotations.setdefault(result[0], []).append(result[1])

    def _evaluations(
        self, policy: ValidatingPolicy, spec: Object, call: AdmissionRequest, data: dict[str, Any]
    ) -> tuple[list[Validation], list[Failure]]:
        """Return an evaluation for each parameter object for which *policy* applies, and failures to determine that."""
        evaluations, failures = [], []
        parameters = self._matcher.params(policy.param_kind, spec.get("paramRef"), call)
        if not parameters and (spec.get("paramRef") or {}).get("parameterNotFoundAction") != "Allow":
            failures.append(Failure("no params found for policy binding with `Deny` parameterNotFoundAction"))
        for params in parameters:
            evaluation = Validation(policy, {**data, "params": params})
            try:
                if evaluation.applies():
                    evaluations.append(evaluation)
            except CelError as error:
                if policy.fails_closed:
                    failures.append(Failure(str(error)))
        return evaluations, failures
