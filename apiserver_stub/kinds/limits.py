"""ResourceQuotas and LimitRanges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object, new_uid
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.defaulting.limit_ranges import LIMIT_RANGE
from apiserver_stub.kinds.columns import AGE, CREATED_AT, NAME
from apiserver_stub.kinds.registry import Column, Resource, Strategy, Subresource
from apiserver_stub.validation.limit_ranges import validate_limit_range
from apiserver_stub.validation.metadata import MetadataRules
from apiserver_stub.validation.resource_quotas import validate_quota, validate_quota_status, validate_quota_update
from nodeagent.base.release import Release

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings
    from nodeagent.base.identity import Identity

_AGE_LAST = Release(1, 33)
"""Release from which the age is the last column of a quota."""


class ResourceQuotaStrategy(Strategy):
    """ResourceQuotas; clients change the status only through its subresource."""

    def __init__(self, identity: Identity) -> None:
        self._label_domain = identity.label_domain

    def prepare_create(self, new: Object) -> None:
        new["status"] = {}

    def validate(self, new: Object) -> list[Cause]:
        return validate_quota(new, self._label_domain)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        if subresource:
            return validate_quota_status(new, self._label_domain)
        return self.validate(new) + validate_quota_update(new, old)


class LimitRangeStrategy(Strategy):
    """LimitRanges; those without a name get a random one."""

    def __init__(self, identity: Identity) -> None:
        self._label_domain = identity.label_domain

    def default(self, new: Object) -> None:
        LIMIT_RANGE.apply(new)

    def prepare_create(self, new: Object) -> None:
        metadata = new["metadata"]
        metadata["name"] = metadata.get("name") or new_uid()

    def validate(self, new: Object) -> list[Cause]:
        return validate_limit_range(new, self._label_domain)


def resources(settings: KindSettings) -> list[Resource]:
    age_is_last = settings.compatibility_version >= _AGE_LAST
    used = (
        Column("Request", lambda quota: _used(quota, limits=False)),
        Column("Limit", lambda quota: _used(quota, limits=True)),
    )
    return [
        Resource(
            "",
            "v1",
            "ResourceQuota",
            "resourcequotas",
            short_names=("quota",),
            metadata_rules=MetadataRules(whole=0),
            strategy=ResourceQuotaStrategy(settings.identity),
            subresources=(Subresource("status"),),
            columns=(NAME, *used, AGE) if age_is_last else (NAME, AGE, *used),
            returns_deleted=True,
        ),
        Resource(
            "",
            "v1",
            "LimitRange",
            "limitranges",
            short_names=("limits",),
            metadata_rules=MetadataRules(changes=0),
            strategy=LimitRangeStrategy(settings.identity),
            columns=(NAME, CREATED_AT),
            create_on_update=True,
        ),
    ]


def _used(quota: Object, *, limits: bool) -> str:
    status = quota.get("status") or {}
    used = status.get("used") or {}
    names = sorted(name for name in status.get("hard") or {} if name.startswith("limits.") == limits)
    return ", ".join(f"{name}: {used.get(name, '0')}/{status['hard'][name]}" for name in names)
