"""Supplemental groups that the volumes of a pod require. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nodeagent.contracts.runtime import ContainerSecurity
from nodeagent.contracts.volumes import MountedVolume


def with_volume_groups(security: ContainerSecurity, volumes: Mapping[str, MountedVolume]) -> ContainerSecurity:
    """Return *security* with the groups that the pod's volumes require, unless the pod lists them."""
    present = list(security.supplemental_groups)
    groups = {volume.supplemental_group for volume in volumes.values() if volume.supplemental_group is not None}
    missing = sorted(groups.difference(present))
    return replace(security, supplemental_groups=(*present, *missing)) if missing else security
