"""Resources of a pod as last reported in its status, for a pod whose record is missing. No I/O."""

from __future__ import annotations

import msgspec

from nodeagent.model.pod import Pod, ResourceRequirements


def reported_resources(pod: Pod, *, granted: bool) -> dict[str, ResourceRequirements]:
    """Return the resources in the container statuses, by container name; without those that report none.

    :param granted: return the granted requests instead of those in effect.
    """
    statuses = [*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())]
    found: dict[str, ResourceRequirements] = {}
    for status in statuses:
        if isinstance(status.resources, msgspec.UnsetType):
            continue
        resources = status.resources
        if granted and not isinstance(status.allocated_resources, msgspec.UnsetType):
            resources = msgspec.structs.replace(resources, requests=status.allocated_resources)
        found[status.name] = resources
    return found
