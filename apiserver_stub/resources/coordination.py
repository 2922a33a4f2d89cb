"""Leases: how nodes and leaders show that they live."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.objects import Object
from apiserver_stub.resources.columns import AGE, NAME, at
from apiserver_stub.resources.registry import Resource, Strategy
from apiserver_stub.status import Cause, invalid_value
from apiserver_stub.validation.metadata import MetadataRules
from nodeagent.base import identity

if TYPE_CHECKING:
    from apiserver_stub.options import Options


class LeaseStrategy(Strategy):
    """Durations are positive, transitions are counted up."""

    def validate(self, new: Object) -> list[Cause]:
        spec, causes = new.get("spec") or {}, []
        duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        if duration is not None and duration <= 0:
            causes.append(invalid_value("spec.leaseDurationSeconds", duration, "must be greater than 0"))
        if transitions is not None and transitions < 0:
            causes.append(invalid_value("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
        return causes


def resources(options: Options) -> list[Resource]:
    return [
        Resource(
            identity.current().group("coordination"),
            "v1",
            "Lease",
            "leases",
            metadata_rules=MetadataRules(whole=0, standard_finalizers=False),
            strategy=LeaseStrategy(),
            columns=(NAME, at("Holder", "spec.holderIdentity", default=""), AGE),
            create_on_update=True,
            unconditional_update=False,
        )
    ]
