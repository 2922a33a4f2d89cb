"""Webhook configurations, admission policies and policy bindings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.defaulting.admission_registration import BINDING, MUTATING, POLICY, VALIDATING
from apiserver_stub.kinds.columns import AGE, NAME, at
from apiserver_stub.kinds.disabled_fields import drop_from_webhooks
from apiserver_stub.kinds.registry import Column, Deprecation, Resource, Strategy, Subresource
from apiserver_stub.kinds.reserved_names import unreserved_names
from apiserver_stub.kinds.versions import effective, with_version
from apiserver_stub.validation.metadata import MetadataRules
from apiserver_stub.validation.validating_policies import validate_binding, validate_policy, validate_policy_status
from apiserver_stub.validation.webhook_configurations import validate_webhooks
from nodeagent.base.release import OLDEST, Release

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings
    from nodeagent.base.gates import FeatureGates

_POLICIES_STABLE, _POLICIES_STORED_STABLE, _POLICIES_ONLY_STABLE = Release(1, 30), Release(1, 31), Release(1, 34)
"""First releases with version ``v1`` of admission policies, that store it, and without earlier versions."""
_METADATA_RULES = MetadataRules(changes=0, standard_finalizers=False)


class WebhookConfigurationStrategy(Strategy):
    """Configurations of admission webhooks."""

    counted = ("webhooks",)

    def __init__(self, gates: FeatureGates, *, mutating: bool) -> None:
        self._gates, self._mutating = gates, mutating

    def default(self, new: Object) -> None:
        (MUTATING if self._mutating else VALIDATING).apply(new)

    def prepare_create(self, new: Object) -> None:
        drop_from_webhooks(self._gates, new)

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        super().prepare_update(new, old, subresource)
        drop_from_webhooks(self._gates, new, old)

    def validate(self, new: Object) -> list[Cause]:
        return validate_webhooks(new, mutating=self._mutating)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return validate_webhooks(new, old, mutating=self._mutating)


class PolicyStrategy(Strategy):
    """ValidatingAdmissionPolicies; their expressions must compile, controllers report the status."""

    counted = ("spec",)
    status_keeps = ("labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp", "selfLink")

    def default(self, new: Object) -> None:
        POLICY.apply(new)

    def prepare_create(self, new: Object) -> None:
        new["status"] = {}

    def validate(self, new: Object) -> list[Cause]:
        return validate_policy(new)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return validate_policy_status(new.get("status") or {}) if subresource else validate_policy(new, old)


class BindingStrategy(Strategy):
    """ValidatingAdmissionPolicyBindings: the requests to which a policy applies, and its parameters."""

    counted = ("spec",)

    def __init__(self, release: Release = OLDEST) -> None:
        self._release = release

    def default(self, new: Object) -> None:
        BINDING.apply(new)

    def validate(self, new: Object) -> list[Cause]:
        return validate_binding(new.get("spec") or {}, self._release)


def resources(settings: KindSettings) -> list[Resource]:
    group = settings.identity.group("admissionregistration")
    hooks = Column("Webhooks", lambda obj: len(obj.get("webhooks") or ()), type="integer")
    found = [
        Resource(
            group,
            "v1",
            f"{word}WebhookConfiguration",
            f"{word.lower()}webhookconfigurations",
            unconditional_update=False,
            namespaced=False,
            categories=("api-extensions",),
            name_problems=unreserved_names(settings),
            metadata_rules=_METADATA_RULES,
            strategy=WebhookConfigurationStrategy(settings.gates, mutating=word == "Mutating"),
            columns=(NAME, hooks, AGE),
        )
        for word in ("Mutating", "Validating")
    ]
    if settings.gates.enabled("ValidatingAdmissionPolicy"):
        versions = policy_versions(settings.compatibility_version)
        found += [item for version in versions for item in _policies(group, version, versions, settings)]
    return found


def policy_versions(release: Release) -> tuple[str, ...]:
    """Return the API versions of admission policies in *release*, the preferred one first."""
    if release < _POLICIES_STABLE:
        return ("v1beta1",)
    return ("v1", "v1beta1") if release < _POLICIES_ONLY_STABLE else ("v1",)


def _policies(group: str, version: str, versions: Sequence[str], settings: KindSettings) -> list[Resource]:
    validations = Column("Validations", lambda obj: len(dig(obj, ("spec", "validations")) or ()), type="integer")
    convert = partial(with_version, group, version)
    others: dict[str, dict[str, str]] = {f"{group}/{other}": {} for other in versions if other != version}
    deprecation = Deprecation("1.31", "1.34") if version == "v1beta1" else None
    deprecation = effective(deprecation, settings.compatibility_version)
    hashed = "v1beta1" if settings.compatibility_version < _POLICIES_STORED_STABLE else versions[0]
    return [
        Resource(
            group,
            version,
            "ValidatingAdmissionPolicy",
            "validatingadmissionpolicies",
            namespaced=False,
            unconditional_update=False,
            categories=("api-extensions",),
            name_problems=unreserved_names(settings),
            metadata_rules=_METADATA_RULES,
            subresource_rules=MetadataRules(whole=0, changes=0),
            reset_fields={"status": ("spec", "metadata")},
            strategy=PolicyStrategy(),
            subresources=(Subresource("status"),),
            columns=(NAME, validations, Column("ParamKind", _param_kind), AGE),
            convert=convert,
            renamed_fields=others,
            hashed_version=hashed,
            deprecation=deprecation,
        ),
        Resource(
            group,
            version,
            "ValidatingAdmissionPolicyBinding",
            "validatingadmissionpolicybindings",
            namespaced=False,
            unconditional_update=False,
            categories=("api-extensions",),
            name_problems=unreserved_names(settings),
            metadata_rules=_METADATA_RULES,
            strategy=BindingStrategy(settings.compatibility_version),
            columns=(
                NAME,
                at("PolicyName", "spec.policyName", default=""),
                Column("ParamRef", _param_ref),
                AGE,
            ),
            convert=convert,
            renamed_fields=others,
            hashed_version=hashed,
            deprecation=deprecation,
        ),
    ]


def _param_kind(policy: Object) -> str:
    kind = dig(policy, ("spec", "paramKind"))
    return "<unset>" if kind is None else f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}"


def _param_ref(binding: Object) -> str:
    found = dig(binding, ("spec", "paramRef")) or {}
    if name := found.get("name"):
        return f"{found.get('namespace') or '*'}/{name}"
    selector = found.get("selector")
    return "<unset>" if selector is None else _selector_text(selector)


def _selector_text(selector: Object) -> str:
    """Return a label selector as upstream's generated code formats it."""
    labels = "".join(f"{name}: {value}," for name, value in sorted((selector.get("matchLabels") or {}).items()))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{item.get('key', '')},Operator:{item.get('operator', '')},"
        f"Values:[{' '.join(item.get('values') or ())}],}},"
        for item in selector.get("matchExpressions") or ()
    )
    parts = f"MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},"
    return f"&LabelSelector{{{parts}}}"
