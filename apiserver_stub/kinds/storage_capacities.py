"""CSIStorageCapacities: storage that a CSI driver can provide for a class and a part of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, invalid_each, invalid_value
from apiserver_stub.kinds.columns import CREATED_AT, NAME
from apiserver_stub.kinds.registry import Resource, Strategy
from apiserver_stub.validation.labels import validate_selector
from apiserver_stub.validation.quantities import validate_nonnegative_amount
from nodeagent.base.names import subdomain_problems

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings

_IMMUTABLE = ("nodeTopology", "storageClassName")


class StorageCapacityStrategy(Strategy):
    """CSIStorageCapacities; the topology and the storage class are immutable."""

    def validate(self, new: Object) -> list[Cause]:
        return self._validate(new)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        any_values = bool(validate_selector(old.get("nodeTopology"), ""))
        changed = [
            invalid_value(name, new.get(name), "field is immutable")
            for name in _IMMUTABLE
            if (new.get(name) or None) != (old.get(name) or None)
        ]
        return self._validate(new, any_values=any_values) + changed

    def _validate(self, new: Object, *, any_values: bool = False) -> list[Cause]:
        causes = validate_selector(new.get("nodeTopology"), "nodeTopology", any_values=any_values)
        name = new.get("storageClassName") or ""
        causes += invalid_each("storageClassName", name, subdomain_problems(name))
        if (capacity := new.get("capacity")) is not None:
            causes += validate_nonnegative_amount(capacity, "capacity")
        return causes


def resources(settings: KindSettings) -> list[Resource]:
    return [
        Resource(
            settings.identity.group("storage"),
            "v1",
            "CSIStorageCapacity",
            "csistoragecapacities",
            strategy=StorageCapacityStrategy(),
            unconditional_update=False,
            columns=(NAME, CREATED_AT),
        )
    ]
