"""NetworkPolicies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.label_selectors import format_selector
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.defaulting.networking import NETWORK_POLICY
from apiserver_stub.kinds.columns import AGE, NAME
from apiserver_stub.kinds.registry import Column, Resource, Strategy
from apiserver_stub.validation.network_policies import has_invalid_selector, validate_network_policy

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings


class NetworkPolicyStrategy(Strategy):
    """NetworkPolicies, which a network add-on enforces."""

    counted = ("spec",)

    def default(self, new: Object) -> None:
        NETWORK_POLICY.apply(new)

    def validate(self, new: Object) -> list[Cause]:
        return validate_network_policy(new)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return validate_network_policy(new, any_values=has_invalid_selector(old)) * 2


def resources(settings: KindSettings) -> list[Resource]:
    return [
        Resource(
            settings.identity.group("networking"),
            "v1",
            "NetworkPolicy",
            "networkpolicies",
            short_names=("netpol",),
            strategy=NetworkPolicyStrategy(),
            columns=(NAME, Column("Pod-Selector", _selector, description="Pods that the policy is for."), AGE),
        )
    ]


def _selector(policy: Object) -> str:
    return format_selector(dig(policy, ("spec", "podSelector"))) or "<none>"
