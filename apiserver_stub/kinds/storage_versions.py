"""StorageVersions: the versions in which the API servers of a store encode and decode the objects of a resource."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.kinds.columns import AGE, NAME, first_three
from apiserver_stub.kinds.registry import Column, Resource, Strategy, Subresource
from apiserver_stub.validation.metadata import MetadataRules
from apiserver_stub.validation.storage_versions import storage_version_name_problems, validate_storage_version_status

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings

GROUP, VERSION, PLURAL = "internal.apiserver", "v1alpha1", "storageversions"


class StorageVersionStrategy(Strategy):
    """StorageVersions; servers report their versions in the status."""

    status_keeps = ("labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp", "selfLink")

    def prepare_create(self, new: Object) -> None:
        new["status"] = {}

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return validate_storage_version_status(new.get("status") or {}) if subresource else []


def resources(settings: KindSettings) -> list[Resource]:
    return [
        Resource(
            settings.identity.group(GROUP),
            VERSION,
            "StorageVersion",
            PLURAL,
            namespaced=False,
            strategy=StorageVersionStrategy(),
            metadata_rules=MetadataRules(whole=0, changes=0),
            subresource_rules=MetadataRules(whole=0, changes=0),
            subresources=(Subresource("status"),),
            reset_fields={"": ("status",), "status": ("metadata", "spec")},
            unconditional_update=False,
            name_problems=storage_version_name_problems,
            columns=(
                NAME,
                Column(
                    "CommonEncodingVersion",
                    lambda obj: dig(obj, ("status", "commonEncodingVersion")) or "<unset>",
                    description="Version in which all servers encode the objects.",
                ),
                Column("StorageVersions", _encodings, description="Versions in which the servers encode the objects."),
                AGE,
            ),
        )
    ]


def _encodings(obj: Object) -> str:
    entries = dig(obj, ("status", "storageVersions")) or []
    return first_three([f"{entry.get('apiServerID', '')}={entry.get('encodingVersion', '')}" for entry in entries])
