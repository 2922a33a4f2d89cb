"""EndpointSlices: the endpoints of services, for service proxies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.defaulting import networking as defaulting
from apiserver_stub.kinds.columns import AGE, NAME, at, first_three
from apiserver_stub.kinds.registry import Column, Resource, Strategy
from apiserver_stub.validation.address_rules import EARLY_RULES, AddressRules
from apiserver_stub.validation.endpoint_slices import slice_warnings, validate_slice, validate_slice_update
from apiserver_stub.validation.metadata import MetadataRules
from nodeagent.base.release import Release

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings
    from nodeagent.base.identity import Identity

_STORED_STABLE = Release(1, 36)
"""First release that stores version ``v1``."""


def endpoint_slice_group(identity: Identity) -> str:
    """Return the API group of EndpointSlices."""
    return identity.group("discovery")


class EndpointSliceStrategy(Strategy):
    """EndpointSlices; the address type is immutable."""

    def __init__(self, identity: Identity, rules: AddressRules = EARLY_RULES, *, has_node_hints: bool = False) -> None:
        """Keep the hints for nodes of new endpoints if *has_node_hints* (spec: gate.PreferSameTrafficDistribution)."""
        self._rules, self._has_node_hints = rules, has_node_hints
        self._node = identity.label("hostname")

    def default(self, new: Object) -> None:
        defaulting.ENDPOINT_SLICE.apply(new)

    def is_counted(self, new: Object, old: Object) -> bool:
        names = (new.keys() | old.keys()) - {"metadata"}
        return any((new.get(name) or None) != (old.get(name) or None) for name in names) or (
            (new["metadata"].get("labels") or {}) != (old["metadata"].get("labels") or {})
        )

    def prepare_create(self, new: Object) -> None:
        new["metadata"]["generation"] = 1
        if not self._has_node_hints:
            _drop_node_hints(new)

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        """Accept all fields, hints for nodes if they are in use; there is no status."""
        if not self._has_node_hints and not any("forNodes" in hints for hints in _hints(old)):
            _drop_node_hints(new)

    def validate(self, new: Object) -> list[Cause]:
        return validate_slice(new, self._rules)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return validate_slice_update(new, old, self._rules)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        is_deprecated = old is None and new.get("addressType") == "FQDN"
        warnings = ["spec.addressType: FQDN endpoints are deprecated"] if is_deprecated else []
        return warnings + slice_warnings(new, self._rules)

    def canonicalize(self, new: Object, old: Object | None) -> None:
        """Drop the deprecated topology, which only removed API versions could set, from changed endpoints.

        The name of a node that it contained remains as the node name.
        """
        before = (old or {}).get("endpoints") or ()
        if new.get("endpoints") == before:
            return
        nodes = {(endpoint.get("deprecatedTopology") or {}).get(self._node) for endpoint in before}
        for endpoint in new.get("endpoints") or ():
            node = (endpoint.pop("deprecatedTopology", None) or {}).get(self._node)
            if node and node in nodes and endpoint.get("nodeName") is None:
                endpoint["nodeName"] = node


def _hints(item: Object) -> list[Object]:
    return [endpoint["hints"] for endpoint in item.get("endpoints") or () if endpoint.get("hints")]


def _drop_node_hints(item: Object) -> None:
    for hints in _hints(item):
        hints.pop("forNodes", None)


def resources(settings: KindSettings) -> list[Resource]:
    return [
        Resource(
            endpoint_slice_group(settings.identity),
            "v1",
            "EndpointSlice",
            "endpointslices",
            hashed_version="v1" if settings.compatibility_version >= _STORED_STABLE else "v1beta1",
            metadata_rules=MetadataRules(changes=0),
            strategy=EndpointSliceStrategy(
                settings.identity,
                AddressRules.of(settings.gates, settings.compatibility_version),
                has_node_hints=settings.gates.enabled("PreferSameTrafficDistribution"),
            ),
            columns=(
                NAME,
                at("AddressType", "addressType", default=""),
                Column("Ports", _ports),
                Column("Endpoints", _endpoints),
                AGE,
            ),
        )
    ]


def _ports(obj: Object) -> str:
    ports = obj.get("ports") or ()
    names = [str(port["port"]) if port.get("port") is not None else port.get("name") or "" for port in ports]
    return first_three(names) or "<unset>"


def _endpoints(obj: Object) -> str:
    addresses = [address for endpoint in obj.get("endpoints") or () for address in endpoint.get("addresses") or ()]
    return first_three(addresses) or "<unset>"
