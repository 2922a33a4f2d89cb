"""Names of annotations and finalizers of claims and persistent volumes. No I/O."""

from __future__ import annotations

from nodeagent.base.identity import Identity
from nodeagent.base.structs import Struct


class VolumeNames(Struct, frozen=True):
    """Annotations that controllers, provisioners and the scheduler exchange."""

    bind_completed: str
    bound_by_controller: str
    provisioned_by: str
    migrated_to: str
    selected_node: str
    storage_provisioner: str
    beta_storage_provisioner: str
    storage_class: str
    """Annotation of both kinds that precedes the field ``storageClassName``."""

    @classmethod
    def of(cls, identity: Identity) -> VolumeNames:
        label = identity.label
        return cls(
            bind_completed=label("bind-completed", "pv"),
            bound_by_controller=label("bound-by-controller", "pv"),
            provisioned_by=label("provisioned-by", "pv"),
            migrated_to=label("migrated-to", "pv"),
            selected_node=label("selected-node", "volume"),
            storage_provisioner=label("storage-provisioner", "volume"),
            beta_storage_provisioner=label("storage-provisioner", "volume.beta"),
            storage_class=label("storage-class", "volume.beta"),
        )
