"""Validation of the volume mounts and block devices of containers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import (
    Cause,
    forbidden_value,
    invalid_value,
    not_found_value,
    not_supported,
    required,
)
from apiserver_stub.validation.file_paths import validate_descending_path, validate_no_backsteps
from apiserver_stub.validation.pod_options import PodOptions

_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE_MODES = ("Disabled", "Enabled", "IfPossible")
_CLAIMS = ("persistentVolumeClaim", "ephemeral")


def validate_volume_mounts(
    container: Object, volumes: Mapping[str, Object], field: str, options: PodOptions
) -> list[Cause]:
    """Return the errors in the mounts of a container; *volumes* are the valid ones of the pod, by name."""
    devices = _paths(container.get("volumeDevices"), "devicePath")
    paths: set[str] = set()
    causes = []
    for index, mount in enumerate(container["volumeMounts"]):
        name, path = mount.get("name") or "", mount.get("mountPath") or ""
        at = f"{field}[{index}]"
        if not name:
            causes.append(required(f"{at}.name"))
        if name not in volumes:
            causes.append(not_found_value(f"{at}.name", name))
        if not path:
            causes.append(required(f"{at}.mountPath"))
        if path in paths:
            causes.append(invalid_value(f"{at}.mountPath", path, "must be unique"))
        paths.add(path)
        if devices:
            causes += _validate_overlap(devices, name, path, at, "mountPath", "volumeDevices")
        if sub_path := mount.get("subPath"):
            causes += validate_descending_path(sub_path, f"{field}.subPath")
        if expression := mount.get("subPathExpr"):
            if sub_path:
                detail = "subPathExpr and subPath are mutually exclusive"
                causes.append(invalid_value(f"{at}.subPathExpr", expression, detail))
            causes += validate_descending_path(expression, f"{field}.subPathExpr")
        if (propagation := mount.get("mountPropagation")) is not None:
            causes += _validate_propagation(propagation, container, f"{field}.mountPropagation")
        if "RecursiveReadOnlyMounts" in options.features:
            causes += _validate_recursive_read_only(mount, f"{field}.recursiveReadOnly")
    return causes


def validate_volume_devices(container: Object, volumes: Mapping[str, Object], field: str) -> list[Cause]:
    """Return the errors in the block devices of a container."""
    mounts = _paths(container.get("volumeMounts"), "mountPath")
    names: set[str] = set()
    paths: set[str] = set()
    causes = []
    for index, device in enumerate(container["volumeDevices"]):
        name, path = device.get("name") or "", device.get("devicePath") or ""
        at = f"{field}[{index}]"
        if not name:
            causes.append(required(f"{at}.name"))
        if name in names:
            causes.append(invalid_value(f"{at}.name", name, "must be unique"))
        if name not in volumes:
            causes.append(not_found_value(f"{at}.name", name))
        elif all(volumes[name].get(kind) is None for kind in _CLAIMS):
            detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            causes.append(invalid_value(f"{at}.name", name, detail))
        if not path:
            causes.append(required(f"{at}.devicePath"))
        if path in paths:
            causes.append(invalid_value(f"{at}.devicePath", path, "must be unique"))
        if path and validate_no_backsteps(path, field):
            causes.append(invalid_value(f"{at}.devicePath", path, "can not contain backsteps ('..')"))
        else:
            paths.add(path)
        causes += _validate_overlap(mounts, name, path, at, "devicePath", "volumeMounts")
        if name:
            names.add(name)
    return causes


def _paths(items: Sequence[Object] | None, name: str) -> dict[str, str]:
    return {item.get("name") or "": item.get(name) or "" for item in items or ()}


def _validate_overlap(
    others: Mapping[str, str], name: str, path: str, field: str, path_name: str, list_name: str
) -> list[Cause]:
    causes = []
    if name in others:
        causes.append(invalid_value(f"{field}.name", name, f"must not already exist in {list_name}"))
    if path in others.values():
        detail = f"must not already exist as a path in {list_name}"
        causes.append(invalid_value(f"{field}.{path_name}", path, detail))
    return causes


def _validate_recursive_read_only(mount: Object, field: str) -> list[Cause]:
    mode = mount.get("recursiveReadOnly")
    if mode in (None, "Disabled"):
        return []
    if mode not in _RECURSIVE_MODES:
        return [not_supported(field, mode, _RECURSIVE_MODES)]
    causes = []
    if not mount.get("readOnly"):
        causes.append(forbidden_value(field, "may only be specified when readOnly is true"))
    if mount.get("mountPropagation") not in (None, "None"):
        causes.append(forbidden_value(field, "may only be specified when mountPropagation is None or not specified"))
    return causes


def _validate_propagation(mode: str, container: Object, field: str) -> list[Cause]:
    if mode not in _PROPAGATIONS:
        return [not_supported(field, mode, _PROPAGATIONS)]
    if mode == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
        detail = "Bidirectional mount propagation is available only to privileged containers"
        return [forbidden_value(field, detail)]
    return []
