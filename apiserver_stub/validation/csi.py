"""Validation of CSI drivers and of the drivers on nodes."""

from __future__ import annotations

from collections.abc import Collection

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, duplicate, invalid_each, invalid_value, not_supported, required
from apiserver_stub.validation.volume_sources import validate_csi_driver_name
from nodeagent.base.names import qualified_name_problems
from nodeagent.base.release import OLDEST, Release
from nodeagent.base.structs import Struct

_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
_LIFECYCLE_MODES = ("Persistent", "Ephemeral")
_NODE_ID_LIMIT_BYTES = 256
_SHORTEST_SECONDS, _LONGEST_SECONDS = 600, 1 << 32
_SHORTEST_PERIOD_SECONDS = 10
_IMMUTABLE = {"attachRequired": "attachedRequired", "volumeLifecycleModes": "volumeLifecycleModes"}
"""Fields of a driver that never change, with the names by which upstream reports them."""
_ONCE_IMMUTABLE = {
    "attachRequired": "attachedRequired",
    "fsGroupPolicy": "fsGroupPolicy",
    "podInfoOnMount": "podInfoOnMount",
    "volumeLifecycleModes": "volumeLifecycleModes",
}
"""The same before release 1.30."""
_MUTABLE_SINCE = Release(1, 30)
_DRIVER_FIELD_NAMED = Release(1, 33)
"""First release that names the field of a changed driver of a node."""


class DriverOptions(Struct, frozen=True):
    """Rules for CSI drivers that depend on the release and feature gates."""

    selinux_mount: bool = False
    """``seLinuxMount`` is required (spec: gate.SELinuxMountReadWriteOncePod)."""
    volume_limits: bool = False
    """``preventPodSchedulingIfMissing`` is required (feature gate ``VolumeLimitScaling``)."""
    release: Release = OLDEST


def validate_driver(spec: Object, options: DriverOptions = DriverOptions()) -> list[Cause]:
    """Return the errors in the specification of a driver."""
    causes = []
    if (policy := spec.get("fsGroupPolicy")) is not None and policy not in _GROUP_POLICIES:
        causes.append(not_supported("spec.fsGroupPolicy", policy, _GROUP_POLICIES))
    causes += _validate_token_requests(spec)
    for mode in spec.get("volumeLifecycleModes") or ():
        if mode not in _LIFECYCLE_MODES:
            causes.append(not_supported("spec.volumeLifecycleModes", mode, _LIFECYCLE_MODES))
    if options.selinux_mount and spec.get("seLinuxMount") is None:
        causes.append(required("spec.seLinuxMount"))
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < _SHORTEST_PERIOD_SECONDS:
        detail = f"must be greater than or equal to {_SHORTEST_PERIOD_SECONDS} seconds"
        causes.append(invalid_value("spec.nodeAllocatableUpdatePeriodSeconds", period, detail))
    in_secrets = spec.get("serviceAccountTokenInSecrets")
    if in_secrets is not None and not spec.get("tokenRequests"):
        detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        causes.append(invalid_value("spec.serviceAccountTokenInSecrets", in_secrets, detail))
    if options.volume_limits and spec.get("preventPodSchedulingIfMissing") is None:
        causes.append(required("spec.preventPodSchedulingIfMissing"))
    return causes


def validate_driver_update(spec: Object, old: Object, options: DriverOptions = DriverOptions()) -> list[Cause]:
    """Return the errors in the changed specification of a driver; *old* is the stored one."""
    causes, is_early = validate_driver(spec, options), options.release < _MUTABLE_SINCE
    for name, reported in (_ONCE_IMMUTABLE if is_early else _IMMUTABLE).items():
        if spec.get(name) != old.get(name):
            causes.append(invalid_value(f"spec.{reported}", spec.get(name), "field is immutable"))
    return causes + (_validate_token_requests(spec) if is_early else [])  # Upstream validated them twice.


def driver_warnings(spec: Object, old: Object | None) -> list[str]:
    """Return the warning about tokens in volume attributes; *old* is the stored specification, if there is one."""
    requests = spec.get("tokenRequests") or []
    if not requests or spec.get("serviceAccountTokenInSecrets") is not None:
        return []
    if old is not None and requests == (old.get("tokenRequests") or []):
        return []
    return [
        "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible "
        "logging of tokens in volume attributes"
    ]


def validate_node_drivers(drivers: list[Object], release: Release = OLDEST) -> list[Cause]:
    """Return the errors in the drivers of a node."""
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, driver in enumerate(drivers):
        field, name, node = f"spec.drivers[{index}]", driver.get("name") or "", driver.get("nodeID") or ""
        causes += validate_csi_driver_name(name, f"{field}.name", release)
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


def validate_node_drivers_update(
    drivers: list[Object], old: list[Object], release: Release = OLDEST, *, mutable_count: bool = False
) -> list[Cause]:
    """Return the errors in the change of the drivers of a node: a driver is removed and added, never changed.

    :param mutable_count: the number of volumes may change (feature gate ``MutableCSINodeAllocatableCount``).
    """
    is_named = release >= _DRIVER_FIELD_NAMED
    causes = validate_node_drivers(drivers, release) * (1 if is_named else 2)  # As upstream.
    ignored = ("allocatable",) if mutable_count else ()
    return causes + [
        invalid_value("spec.drivers" if is_named else "CSINodeDriver", driver, "field is immutable")
        for before in old
        for driver in drivers
        if driver.get("name") == before.get("name") and _settled(driver, ignored) != _settled(before, ignored)
    ]


def _settled(driver: Object, ignored: Collection[str]) -> Object:
    return {name: value for name, value in driver.items() if value not in (None, []) and name not in ignored}


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
