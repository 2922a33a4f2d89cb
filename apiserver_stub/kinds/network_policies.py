"""NetworkPolicies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.label_selectors import format_selector
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.defaulting.networking import NETWORK_POLICY
from apiserver_stub.kinds.columns import AGE, NAME
from apiserver_stub.kinds.registry import Column, Resource, Strategy
from apiserver_stub.validation.address_rules import AddressRules
from apiserver_stub.validation.metadata import MetadataRules, repetitions
from apiserver_stub.validation.network_policies import blocks_of, has_invalid_selector, validate_network_policy

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings
    from nodeagent.base.gates import FeatureGates
    from nodeagent.base.release import Release


class NetworkPolicyStrategy(Strategy):
    """NetworkPolicies, which a network add-on enforces."""

    counted = ("spec",)

    def __init__(self, gates: FeatureGates, release: Release) -> None:
        self._rules, self._repetitions = AddressRules.of(gates, release), repetitions(release)

    def default(self, new: Object) -> None:
        NETWORK_POLICY.apply(new)

    def validate(self, new: Object) -> list[Cause]:
        return validate_network_policy(new, self._rules)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        any_values, stored = has_invalid_selector(old), blocks_of(old)
        return validate_network_policy(new, self._rules, any_values=any_values, stored=stored) * self._repetitions


def resources(settings: KindSettings) -> list[Resource]:
    return [
        Resource(
            settings.identity.group("networking"),
            "v1",
            "NetworkPolicy",
            "networkpolicies",
            short_names=("netpol",),
            metadata_rules=MetadataRules(whole=repetitions(settings.compatibility_version) - 1),
            strategy=NetworkPolicyStrategy(settings.gates, settings.compatibility_version),
            columns=(NAME, Column("Pod-Selector", _selector, description="Pods that the policy is for."), AGE),
        )
    ]


def _selector(policy: Object) -> str:
    return format_selector(dig(policy, ("spec", "podSelector"))) or "<none>"
