"""CSI migration: in-tree sources of cloud volumes as sources of their CSI drivers. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from nodeagent.base.structs import Struct
from nodeagent.errors import VolumeError
from nodeagent.model.meta import ObjectMeta
from nodeagent.model.persistent_volume import (
    FILESYSTEM,
    READ_ONLY_MANY,
    READ_WRITE_MANY,
    READ_WRITE_ONCE,
    CsiPersistentVolumeSource,
    PersistentVolume,
    PersistentVolumeSpec,
)
from nodeagent.model.pod import Volume
from nodeagent_plugins.persistent_claims import cloud_sources as sources
from nodeagent_plugins.persistent_claims.cloud_sources import Origin
from nodeagent_plugins.persistent_claims.topology import TopologyKeys, translate_topology


class Migration(Struct, frozen=True):
    """Translation of one in-tree source."""

    field: str
    """Name of the source in PersistentVolumes and in volumes of pods."""
    driver: str
    translate: Callable[[Mapping[str, Any], Origin], CsiPersistentVolumeSource]
    topology: TopologyKeys | None = None
    """``None`` if the driver's topology is that of Kubernetes."""


MIGRATIONS = (
    Migration("aws_elastic_block_store", sources.EBS, sources.ebs, TopologyKeys("topology.ebs.csi.aws.com/zone")),
    Migration("azure_disk", sources.AZURE_DISK, sources.azure_disk),
    Migration("azure_file", sources.AZURE_FILE, sources.azure_file),
    Migration("cinder", sources.CINDER, sources.cinder, TopologyKeys("topology.cinder.csi.openstack.org/zone")),
    Migration("gce_persistent_disk", sources.GCE, sources.gce, TopologyKeys("topology.gke.io/zone")),
    Migration("portworx_volume", sources.PORTWORX, sources.portworx),
    Migration(
        "vsphere_volume",
        sources.VSPHERE,
        sources.vsphere,
        TopologyKeys("topology.csi.vmware.com/zone", "topology.csi.vmware.com/region", several=False),
    ),
)


def to_csi(pv: PersistentVolume) -> PersistentVolume:
    """Return *pv* with the source of a CSI driver if its source is migrated, otherwise unchanged.

    :raises VolumeError: the source cannot be translated.
    """
    for migration in MIGRATIONS:
        source = getattr(pv.spec, migration.field)
        if source is None:
            continue
        origin = Origin(
            name=pv.metadata.name,
            namespace=pv.spec.claim_ref.namespace if pv.spec.claim_ref else "",
            labels=pv.metadata.labels or {},
            annotations=pv.metadata.annotations or {},
        )
        changes: dict[str, Any] = {migration.field: None, "csi": _translated(migration, source, origin)}
        if migration.topology is not None:
            changes["node_affinity"] = translate_topology(pv, migration.topology)
        if migration.driver == sources.GCE:
            changes["access_modes"] = sources.gce_access_modes(pv.spec.access_modes)
        return msgspec.structs.replace(pv, spec=msgspec.structs.replace(pv.spec, **changes))
    return pv


def volume_to_csi(volume: Volume, namespace: str) -> PersistentVolume | None:
    """Return the inline *volume* of a pod as a PersistentVolume if its source is migrated, otherwise ``None``.

    :param namespace: namespace of the pod.
    :raises VolumeError: the source cannot be translated.
    """
    for migration in MIGRATIONS:
        source = getattr(volume, migration.field)
        if source is None:
            continue
        csi = _translated(migration, source, Origin(volume.name, namespace, inline=True))
        mode = READ_WRITE_MANY if migration.driver == sources.AZURE_FILE else READ_WRITE_ONCE
        if source.get("readOnly") and migration.driver in (sources.GCE, sources.PORTWORX):
            mode = READ_ONLY_MANY
        return PersistentVolume(
            metadata=ObjectMeta(name=_inline_name(migration, source, csi)),
            spec=PersistentVolumeSpec(csi=csi, access_modes=[mode], volume_mode=FILESYSTEM),
        )
    return None


def _inline_name(migration: Migration, source: Mapping[str, Any], csi: CsiPersistentVolumeSource) -> str:
    """Return a name that is unique per disk, as the drivers' staging paths require."""
    if migration.driver in (sources.AZURE_DISK, sources.AZURE_FILE):
        return csi.volume_handle
    if migration.driver == sources.GCE:
        return f"{migration.driver}-{source.get('pdName', '')}"
    return f"{migration.driver}-{csi.volume_handle}"


def _translated(migration: Migration, source: Mapping[str, Any], origin: Origin) -> CsiPersistentVolumeSource:
    try:
        return migration.translate(source, origin)
    except ValueError as error:
        raise VolumeError(f"failed to translate in-tree pv to CSI: {error}") from error
