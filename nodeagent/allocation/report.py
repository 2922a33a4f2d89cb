"""Input of the resources in container statuses."""

from __future__ import annotations

from collections.abc import Mapping

from nodeagent.base.structs import Struct
from nodeagent.model.pod import ResourceRequirements


class ResourceReport(Struct, frozen=True):
    """Resources that the runtime has applied, by container name.

    :ivar init: init containers that are not sidecars are reported as well.
    :ivar pod: resources of the pod itself that are in effect; ``None`` reports none.
    """

    actuated: Mapping[str, ResourceRequirements]
    init: bool = False
    pod: ResourceRequirements | None = None
