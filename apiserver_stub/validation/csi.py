"""Validation of CSI drivers and of the drivers on nodes."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, duplicate, invalid_each, invalid_value, not_supported, required
from apiserver_stub.validation.volume_sources import validate_csi_driver_name
from nodeagent.base.names import qualified_name_problems

_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
_LIFECYCLE_MODES = ("Persistent", "Ephemeral")
_NODE_ID_LIMIT_BYTES = 256
_SHORTEST_SECONDS, _LONGEST_SECONDS = 600, 1 << 32
_IMMUTABLE = {
    "attachRequired": "attachedRequired",
    "fsGroupPolicy": "fsGroupPolicy",
    "podInfoOnMount": "podInfoOnMount",
    "volumeLifecycleModes": "volumeLifecycleModes",
}
"""Fields of a driver that never change, with the names by which upstream reports them."""


def validate_driver(spec: Object, *, selinux_mount: bool = False) -> list[Cause]:
    """Return the errors in the specification of a driver.

    :param selinux_mount: ``seLinuxMount`` is required (spec: gate.SELinuxMountReadWriteOncePod).
    """
    causes = []
    if (policy := spec.get("fsGroupPolicy")) is not None and policy not in _GROUP_POLICIES:
        causes.append(not_supported("spec.fsGroupPolicy", policy, _GROUP_POLICIES))
    causes += _validate_token_requests(spec)
    for mode in spec.get("volumeLifecycleModes") or ():
        if mode not in _LIFECYCLE_MODES:
            causes.append(not_supported("spec.volumeLifecycleModes", mode, _LIFECYCLE_MODES))
    if selinux_mount and spec.get("seLinuxMount") is None:
        causes.append(required("spec.seLinuxMount"))
    return causes


def validate_driver_update(spec: Object, old: Object, *, selinux_mount: bool = False) -> list[Cause]:
    """Return the errors in the changed specification of a driver; *old* is the stored one."""
    causes = validate_driver(spec, selinux_mount=selinux_mount)
    for name, reported in _IMMUTABLE.items():
        if spec.get(name) != old.get(name):
            causes.append(invalid_value(f"spec.{reported}", spec.get(name), "field is immutable"))
    return causes + _validate_token_requests(spec)  # Upstream validates them twice.


def validate_node_drivers(drivers: list[Object]) -> list[Cause]:
    """Return the errors in the drivers of a node."""
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, driver in enumerate(drivers):
        field, name, node = f"spec.drivers[{index}]", driver.get("name") or "", driver.get("nodeID") or ""
        causes += validate_csi_driver_name(name, f"{field}.name")
        if not node:
            causes.append(required(f"{field}.nodeID"))
        elif len(node.encode()) > _NODE_ID_LIMIT_BYTES:
            causes.append(invalid_value(f"{field}.nodeID", node, f"must be {_NODE_ID_LIMIT_BYTES} characters or less"))
        count = (driver.get("allocatable") or {}).get("count") or 0
        if count < 0:
            detail = "must be greater than or equal to 0"
            causes.append(invalid_value(f"{field}.allocatable.count", count, detail))
        if name in seen:
            causes.append(duplicate(f"{field}.name", name))
        seen.add(name)
        causes += _validate_topology_keys(driver.get("topologyKeys") or [], field)
    return causes


def validate_node_drivers_update(drivers: list[Object], old: list[Object]) -> list[Cause]:
    """Return the errors in the change of the drivers of a node: a driver is removed and added, never changed."""
    causes = validate_node_drivers(drivers) * 2  # As upstream.
    return causes + [
        invalid_value("CSINodeDriver", driver, "field is immutable")
        for before in old
        for driver in drivers
        if driver.get("name") == before.get("name") and _settled(driver) != _settled(before)
    ]


def _settled(driver: Object) -> Object:
    return {name: value for name, value in driver.items() if value not in (None, [])}


def _validate_topology_keys(keys: list[str], field: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, key in enumerate(keys):
        if not key:
            causes.append(required(field))
        if key in keys[:index]:
            causes.append(duplicate(field, key))
        causes += invalid_each(field, key, qualified_name_problems(key))
    return causes


def _validate_token_requests(spec: Object) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, request in enumerate(spec.get("tokenRequests") or ()):
        field, audience = f"spec.tokenRequests[{index}]", request.get("audience") or ""
        if audience in seen:
            causes.append(duplicate(f"{field}.audience", audience))
            continue
        seen.add(audience)
        if (seconds := request.get("expirationSeconds")) is None:
            continue
        if seconds < _SHORTEST_SECONDS:
            detail = "may not specify a duration less than 10 minutes"
            causes.append(invalid_value(f"{field}.expirationSeconds", seconds, detail))
        if seconds > _LONGEST_SECONDS:
            detail = "may not specify a duration larger than 2^32 seconds"
            causes.append(invalid_value(f"{field}.expirationSeconds", seconds, detail))
    return causes
