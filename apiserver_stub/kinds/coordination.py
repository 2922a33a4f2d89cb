"""Leases: node heartbeats and leader election."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.kinds.columns import AGE, NAME, at
from apiserver_stub.kinds.disabled_fields import drop_from_lease
from apiserver_stub.kinds.registry import Resource, Strategy
from apiserver_stub.validation.leases import validate_lease
from apiserver_stub.validation.metadata import MetadataRules

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings
    from nodeagent.base.gates import FeatureGates


class LeaseStrategy(Strategy):
    """Leases; durations must be positive and transitions not negative."""

    def __init__(self, gates: FeatureGates) -> None:
        self._gates = gates

    def prepare_create(self, new: Object) -> None:
        drop_from_lease(self._gates, new)

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        drop_from_lease(self._gates, new, old)

    def validate(self, new: Object) -> list[Cause]:
        return validate_lease(new)


def resources(settings: KindSettings) -> list[Resource]:
    return [
        Resource(
            settings.identity.group("coordination"),
            "v1",
            "Lease",
            "leases",
            metadata_rules=MetadataRules(whole=0, standard_finalizers=False),
            strategy=LeaseStrategy(settings.gates),
            columns=(NAME, at("Holder", "spec.holderIdentity", default=""), AGE),
            create_on_update=True,
            unconditional_update=False,
        )
    ]
