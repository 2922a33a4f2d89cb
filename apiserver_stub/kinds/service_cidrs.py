"""ServiceCIDRs, the ranges of cluster IPs, and IPAddresses, the allocated ones."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.kinds.columns import AGE, NAME
from apiserver_stub.kinds.registry import Column, Resource, Strategy, Subresource
from apiserver_stub.kinds.versions import with_version
from apiserver_stub.validation.metadata import MetadataRules, repetitions
from apiserver_stub.validation.service_ranges import (
    address_name_problems,
    validate_ip_address,
    validate_ip_address_update,
    validate_service_cidr,
    validate_service_cidr_update,
)
from nodeagent.base.release import Release

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings

_BETA, _STABLE, _STORED_STABLE = Release(1, 31), Release(1, 33), Release(1, 34)
"""First releases with the versions ``v1beta1`` and ``v1``, and the first one that stores ``v1``."""
_LAST_ALPHA = Release(1, 30)


class IPAddressStrategy(Strategy):
    """IPAddresses; the reference to the parent is immutable."""

    def validate(self, new: Object) -> list[Cause]:
        return validate_ip_address(new)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return validate_ip_address_update(new, old)


class ServiceCIDRStrategy(Strategy):
    """ServiceCIDRs; the status is reset by writes of the object (spec: gate.ServiceCIDRStatusFieldWiping)."""

    def __init__(self, release: Release, *, wipes_status: bool) -> None:
        self._release, self._wipes_status = release, wipes_status

    def prepare_create(self, new: Object) -> None:
        if self._wipes_status:
            new["status"] = {}

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        if subresource or self._wipes_status:
            super().prepare_update(new, old, subresource)

    def validate(self, new: Object) -> list[Cause]:
        return validate_service_cidr(new, self._release)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return [] if subresource else validate_service_cidr_update(new, old, self._release)


def versions_of(release: Release) -> tuple[str, ...]:
    """Return the versions of both kinds in *release*."""
    if release <= _LAST_ALPHA:
        return ("v1alpha1",)
    return (*(("v1",) if release >= _STABLE else ()), *(("v1beta1",) if release >= _BETA else ()))


def stored_version(release: Release) -> str:
    """Return the version in which *release* stores both kinds."""
    versions = versions_of(release)
    return versions[0] if release >= _STORED_STABLE else versions[-1]


def resources(settings: KindSettings) -> list[Resource]:
    group, release = settings.identity.group("networking"), settings.compatibility_version
    versions, stored = versions_of(release), stored_version(release)
    wipes_status = release >= _BETA and settings.gates.enabled("ServiceCIDRStatusFieldWiping")
    found = []
    for version in versions:
        convert = partial(with_version, group, version)
        renamed_fields: dict[str, dict[str, str]] = {f"{group}/{other}": {} for other in versions if other != version}
        found += [
            Resource(
                group,
                version,
                "IPAddress",
                "ipaddresses",
                namespaced=False,
                short_names=("ip",),
                strategy=IPAddressStrategy(),
                columns=(NAME, Column("ParentRef", _parent)),
                name_problems=partial(address_name_problems, release=release),
                convert=convert,
                renamed_fields=renamed_fields,
                hashed_version=stored,
            ),
            Resource(
                group,
                version,
                "ServiceCIDR",
                "servicecidrs",
                namespaced=False,
                metadata_rules=MetadataRules(whole=repetitions(release) - 1),
                strategy=ServiceCIDRStrategy(release, wipes_status=wipes_status),
                subresources=(Subresource("status"),),
                columns=(NAME, Column("CIDRs", lambda obj: ",".join(dig(obj, ("spec", "cidrs")) or ())), AGE),
                convert=convert,
                renamed_fields=renamed_fields,
                hashed_version=stored,
            ),
        ]
    return found


def _parent(obj: Object) -> str:
    reference = dig(obj, ("spec", "parentRef"))
    if reference is None:
        return "<none>"
    parts = (".".join(filter(None, (reference.get("resource"), reference.get("group")))).lower(),)
    return "/".join(filter(None, (*parts, reference.get("namespace"), reference.get("name"))))
