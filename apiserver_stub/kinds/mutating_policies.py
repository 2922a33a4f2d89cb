"""MutatingAdmissionPolicies and their bindings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.defaulting.admission_registration import BINDING, POLICY
from apiserver_stub.kinds.columns import AGE, NAME, at
from apiserver_stub.kinds.registry import Column, Resource, Strategy
from apiserver_stub.kinds.reserved_names import unreserved_names
from apiserver_stub.validation.metadata import MetadataRules
from apiserver_stub.validation.mutating_policies import validate_mutating_binding, validate_mutating_policy
from nodeagent.base.release import Release

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings

POLICIES, BINDINGS = "mutatingadmissionpolicies", "mutatingadmissionpolicybindings"
_SINCE = Release(1, 36)
"""First release with version ``v1``; earlier ones have it in versions that are not served."""
_METADATA_RULES = MetadataRules(changes=0, standard_finalizers=False)


class MutatingPolicyStrategy(Strategy):
    """MutatingAdmissionPolicies; their expressions must compile."""

    counted = ("spec",)

    def default(self, new: Object) -> None:
        POLICY.apply(new)

    def validate(self, new: Object) -> list[Cause]:
        return validate_mutating_policy(new)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return validate_mutating_policy(new, old)


class MutatingBindingStrategy(Strategy):
    """MutatingAdmissionPolicyBindings: the requests to which a policy applies, and its parameters."""

    counted = ("spec",)

    def default(self, new: Object) -> None:
        BINDING.apply(new)

    def validate(self, new: Object) -> list[Cause]:
        return validate_mutating_binding(new.get("spec") or {})


def resources(settings: KindSettings) -> list[Resource]:
    """Return the kinds if the release has them (spec: gate.MutatingAdmissionPolicy)."""
    if settings.compatibility_version < _SINCE or not settings.gates.enabled("MutatingAdmissionPolicy"):
        return []
    group = settings.identity.group("admissionregistration")
    mutations = Column("Mutations", lambda obj: len(dig(obj, ("spec", "mutations")) or ()), type="integer")
    return [
        Resource(
            group,
            "v1",
            "MutatingAdmissionPolicy",
            POLICIES,
            namespaced=False,
            hashed_version="v1beta1",
            unconditional_update=False,
            categories=("api-extensions",),
            name_problems=unreserved_names(settings),
            metadata_rules=_METADATA_RULES,
            strategy=MutatingPolicyStrategy(),
            columns=(NAME, mutations, Column("ParamKind", _param_kind), AGE),
        ),
        Resource(
            group,
            "v1",
            "MutatingAdmissionPolicyBinding",
            BINDINGS,
            namespaced=False,
            hashed_version="v1beta1",
            unconditional_update=False,
            categories=("api-extensions",),
            name_problems=unreserved_names(settings),
            metadata_rules=_METADATA_RULES,
            strategy=MutatingBindingStrategy(),
            columns=(NAME, at("PolicyName", "spec.policyName", default=""), Column("ParamRef", _param_ref), AGE),
        ),
    ]


def _param_kind(policy: Object) -> str:
    kind = dig(policy, ("spec", "paramKind"))
    return "<unset>" if kind is None else f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}"


def _param_ref(binding: Object) -> str:
    found = dig(binding, ("spec", "paramRef")) or {}
    return f"{found.get('namespace') or '*'}/{found['name']}" if found.get("name") else "<unset>"
