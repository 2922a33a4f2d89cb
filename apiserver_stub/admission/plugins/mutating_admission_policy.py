"""MutatingAdmissionPolicy admission plugin: change objects by admission policies through their bindings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Self, TypeVar

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.context import AdmissionContext
from apiserver_stub.admission.listers import Lister
from apiserver_stub.admission.manifest_config import load_manifests
from apiserver_stub.admission.manifests import Manifests
from apiserver_stub.admission.policy_matching import PolicyMatcher
from apiserver_stub.admission.policy_mutation import MutatingPolicy, Mutation, MutationError
from apiserver_stub.admission.policy_source import PolicySource
from apiserver_stub.admission.webhooks.conditions import condition_data, in_version, views_of
from apiserver_stub.admission.webhooks.matching import is_exempt
from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.cel import CelError
from apiserver_stub.cel.authorization import Authorizer, Decide
from apiserver_stub.kinds.mutating_policies import BINDINGS, POLICIES
from apiserver_stub.kinds.registry import Registry, Resource
from apiserver_stub.verbs.admission import AdmissionRequest, Operation
from nodeagent.base.identity import Identity

Result = TypeVar("Result")
_KINDS = ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")


class MutatingAdmissionPolicy(AdmissionPlugin):
    """Change objects by admission policies through their bindings.

    No policies apply unless the feature gate of the same name is enabled and the API is served.
    """

    name = "MutatingAdmissionPolicy"
    order = 3190
    enabled_by_default = True
    operations = ("CREATE", "UPDATE")

    def __init__(
        self,
        lister: Lister,
        registry: Registry,
        decide: Decide,
        identity: Identity,
        manifests: Manifests | None = None,
    ) -> None:
        self._decide, self._identity = decide, identity
        self._matcher = PolicyMatcher(lister, registry)
        self._group = identity.group("admissionregistration")
        self._served = any((item.group, item.plural) == (self._group, POLICIES) for item in registry)
        self._policies = PolicySource(lister, self._group, POLICIES, BINDINGS, MutatingPolicy, manifests)

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        manifests = await load_manifests(cls.name, context, _KINDS, f"{cls.name}Configuration")
        return cls(context.lister, context.registry, context.authorize, context.identity, manifests)

    def concerns(self, resource: Resource, operation: Operation, subresource: str) -> bool:
        return self._policies.has_manifests or self._served

    async def admit(self, call: AdmissionRequest) -> None:
        for policy, all_bindings in self._policies.current(only_static=is_exempt(call.resource, self._group)):
            seen_as = self._matcher.match(policy.match, call, self._matcher.namespace_of(call))
            if seen_as is None or not self._is_due(policy, call):
                continue
            changed = False
            for binding, params in self._bindings(policy, all_bindings, call):
                changed = await self._apply(policy, binding, params, call, seen_as) or changed
            if changed:
                call.reinvoke = True
            call.seen[_key(policy)] = objects.encode(call.new)

    def _is_due(self, policy: MutatingPolicy, call: AdmissionRequest) -> bool:
        """Return whether to apply a policy; in the second call, only if the object has changed since the first one."""
        if not call.reinvoking:
            return True
        return policy.reinvokes and call.seen.get(_key(policy)) not in (None, objects.encode(call.new))

    def _bindings(
        self, policy: MutatingPolicy, bindings: Iterable[Object], call: AdmissionRequest
    ) -> Iterator[tuple[str, Object | None]]:
        """Yield the names of those *bindings* that bind *policy* and match, each with every parameter object.

        :raises ApiError: a binding requires parameters and has none.
        """
        namespace = self._matcher.namespace_of(call)
        for binding in bindings:
            spec, name = binding.get("spec") or {}, binding["metadata"]["name"]
            if spec.get("policyName") != policy.name:
                continue
            if not self._matcher.binding_matches(spec.get("matchResources"), call, namespace):
                continue
            found = self._matcher.params(policy.param_kind, spec.get("paramRef"), call)
            if not found and (spec.get("paramRef") or {}).get("parameterNotFoundAction") != "Allow":
                text = "no params found for policy binding with `Deny` parameterNotFoundAction"
                if policy.fails_closed:
                    raise _denial(call, policy, name, text)
            for params in found:
                yield name, params

    async def _apply(
        self, policy: MutatingPolicy, binding: str, params: Object | None, call: AdmissionRequest, seen_as: Resource
    ) -> bool:
        """Apply the mutations of *policy*, each to the result of the previous one; return whether the object changed.

        :raises ApiError: a mutation fails, and the policy fails closed.
        """
        before = objects.encode(call.new)
        try:
            if await self._evaluate(policy, params, call, seen_as, lambda mutation: mutation.applies()):
                for index in range(len(policy.mutations)):
                    await self._mutate(policy, index, params, call, seen_as)
        except (CelError, MutationError) as error:
            if policy.fails_closed:
                raise _denial(call, policy, binding, str(error)) from None
        return objects.encode(call.new) != before

    async def _mutate(
        self, policy: MutatingPolicy, index: int, params: Object | None, call: AdmissionRequest, seen_as: Resource
    ) -> None:
        # Imported here, as listing the plugins does not need the schemas.
        from apiserver_stub.schema.field_validation import SchemaMismatch
        from apiserver_stub.verbs.body import check_types

        schema, new = seen_as.schema_in(self._identity.api_domain), call.obj
        shape = None if schema is None else schema.shape
        result = await self._evaluate(policy, params, call, seen_as, lambda mutation: mutation.result(index, shape))
        try:
            if seen_as is not call.resource:
                result = {**result, "kind": new["kind"], "apiVersion": seen_as.api_version}
                result = await in_version(result, call.resource) or {}
            result = {**result, "kind": new["kind"], "apiVersion": new["apiVersion"]}
            check_types(result, call.resource.schema_in(self._identity.api_domain))
        except (ApiError, SchemaMismatch) as error:
            raise MutationError(f"the result of spec.mutations[{index}] is invalid: {error}") from error
        if not call.subresource:
            call.resource.strategy.default(result)
        new.clear()
        new.update(result)

    async def _evaluate(
        self,
        policy: MutatingPolicy,
        params: Object | None,
        call: AdmissionRequest,
        seen_as: Resource,
        evaluate: Callable[[Mutation], Result],
    ) -> Result:
        """Return the result of *evaluate* for the current object, once all its authorization checks are decided.

        :raises CelError: an expression has no value.
        :raises MutationError: a mutation cannot be applied.
        """
        authorizer = Authorizer(call.request.user, self._decide)
        data = condition_data(call, seen_as, await views_of(call, [seen_as]))
        data |= {"params": params, "namespaceObject": self._matcher.namespace_of(call) or None}
        return await authorizer.evaluate(lambda: evaluate(Mutation(policy, data)), CelError, MutationError)


def _key(policy: MutatingPolicy) -> str:
    return f"{POLICIES}/{policy.name}"


def _denial(call: AdmissionRequest, policy: MutatingPolicy, binding: str, text: str) -> ApiError:
    error = call.forbidden(f"policy '{policy.name}' with binding '{binding}' denied request: {text}")
    error.code, error.reason = 422, "Invalid"
    return error
