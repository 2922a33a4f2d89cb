"""CDI devices of containers: the edits that the specs of the node define, applied to an OCI configuration."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nodeagent.base.cdi.catalog import read_catalog
from nodeagent.base.cdi.names import DEFAULT_DIRECTORIES, qualified_error, requested_names
from nodeagent.base.cdi.spec import NO_PERMISSIONS, CdiError, ContainerEdits, DeviceNode, Mount
from nodeagent.base.criproto import api_pb2 as cri
from nodeagent_plugins.embedded_runtime import devices
from nodeagent_plugins.embedded_runtime.devices import DeviceSetup
from nodeagent_plugins.embedded_runtime.errors import FailedPrecondition, InvalidArgument
from nodeagent_plugins.embedded_runtime.oci_runtimes import OWN

_BINDS = ("bind", "rbind")


class CdiDevices:
    """Resolves the CDI devices of containers in the specs of *directories*, which are read at each request.

    :param runner: name of the OCI runtime, which limits the supported edits.
    """

    def __init__(self, runner: str, directories: Sequence[str] = DEFAULT_DIRECTORIES) -> None:
        self._runner, self.directories = runner, tuple(directories)

    def edits(self, config: cri.ContainerConfig) -> ContainerEdits | None:
        """Return the edits of the devices that *config* requests; ``None`` without any. Blocking.

        :raises InvalidArgument: the name of a device is invalid.
        :raises FailedPrecondition: a device is not defined, or needs an edit that is not supported.
        """
        requested = requested_names((device.name for device in config.CDI_devices), config.annotations)
        if not requested:
            return None
        for name in requested:
            if error := qualified_error(name):
                raise InvalidArgument(f'CDI device "{name[:253]}": {error}')
        try:
            edits = read_catalog(self.directories).edits(requested)
        except CdiError as error:
            raise FailedPrecondition(f"CDI device injection failed: {error}") from error
        for feature in _unsupported(edits, self._runner):
            raise FailedPrecondition(f"CDI device injection failed: {', '.join(requested)}: {feature}")
        return edits


def _unsupported(edits: ContainerEdits, runner: str) -> list[str]:
    """Return the edits that would be ignored."""
    rdt, found = edits.intel_rdt, []
    if edits.net_devices:
        found.append("netDevices are not supported by the embedded runtime")
    if rdt is not None and (rdt.schemata or rdt.enable_monitoring):
        found.append("schemata and enableMonitoring of intelRdt are not supported by the embedded runtime")
    if runner == OWN and (edits.hooks or rdt is not None):
        found.append("hooks and intelRdt require crun or runc")
    return found


def apply_edits(
    spec: dict[str, Any], edits: ContainerEdits, setup: DeviceSetup, map_owners: Callable[[str], str]
) -> None:
    """Apply *edits* to the OCI configuration *spec*.

    :param map_owners: returns the path to bind-mount for a path of the host.
    :raises FailedPrecondition: a device or mount does not exist.
    """
    process, linux = spec["process"], spec["linux"]
    process["env"] = list({entry.partition("=")[0]: entry for entry in [*process["env"], *edits.env]}.values())
    user = process["user"]
    user["additionalGids"] = list(dict.fromkeys([*user["additionalGids"], *filter(None, edits.additional_gids)]))
    for node in edits.device_nodes:
        try:
            setup.add(spec, _complete(node, user["uid"], user["gid"]))
        except OSError as error:
            raise FailedPrecondition(f"CDI device node {node.path}: {error.strerror}") from error
    for mount in edits.mounts:
        spec["mounts"] = [known for known in spec["mounts"] if known["destination"] != mount.container_path]
        spec["mounts"].append(_mount(mount, map_owners))
    if edits.mounts:
        spec["mounts"].sort(key=lambda mount: os.path.normpath(mount["destination"]).count("/"))
    for hook in edits.hooks:
        about: dict[str, Any] = {"path": hook.path, "args": list(hook.args), "env": list(hook.env)}
        if hook.timeout is not None:
            about["timeout"] = hook.timeout
        spec.setdefault("hooks", {}).setdefault(hook.hook_name, []).append(about)
    if (rdt := edits.intel_rdt) is not None:
        settings = {"closID": rdt.clos_id, "l3CacheSchema": rdt.l3_cache_schema, "memBwSchema": rdt.mem_bw_schema}
        linux["intelRdt"] = {name: value for name, value in settings.items() if value}


def _complete(node: DeviceNode, uid: int, gid: int) -> devices.DeviceNode:
    """Return *node* with the type, numbers and mode of the device on the host where it does not specify them.

    Without owner, the device belongs to the user of the container's process.
    """
    source, kind = node.host_path or node.path, "c" if node.type == "u" else node.type
    major, minor, mode = node.major, node.minor, node.file_mode
    specified = bool(kind) and (bool(major) or kind == "p")
    try:
        about = Path(source).lstat()
    except OSError:
        if not specified:
            raise
    else:
        found = next((name for name, is_kind in _KINDS.items() if is_kind(about.st_mode)), "")
        if not specified:
            if not found or (kind and kind != found):
                expected = {"b": "block device", "c": "character device", "p": "FIFO"}.get(kind, "device")
                raise FailedPrecondition(f"CDI device node {source}: not a {expected}")
            kind = found
            if not major and kind != "p":
                major, minor = os.major(about.st_rdev), os.minor(about.st_rdev)
        mode = stat.S_IMODE(about.st_mode) if mode is None else mode
    return devices.DeviceNode(
        target=node.path,
        source=source,
        kind=kind,
        major=major,
        minor=minor,
        mode=0o666 if mode is None else stat.S_IMODE(mode),
        uid=uid if node.uid is None else node.uid,
        gid=gid if node.gid is None else node.gid,
        access="" if node.permissions == NO_PERMISSIONS else node.permissions or "rwm",
    )


_KINDS = {"b": stat.S_ISBLK, "c": stat.S_ISCHR, "p": stat.S_ISFIFO}


def _mount(mount: Mount, map_owners: Callable[[str], str]) -> dict[str, Any]:
    options, bind = list(mount.options), any(option in _BINDS for option in mount.options)
    if mount.type not in ("", "none", *_BINDS) and not bind:
        return {
            "destination": mount.container_path,
            "type": mount.type,
            "source": mount.host_path,
            "options": options,
        }
    if not Path(mount.host_path).exists():
        raise FailedPrecondition(f"CDI mount {mount.container_path}: {mount.host_path} does not exist on the node")
    options = options if bind else ["rbind", *options]
    source = map_owners(mount.host_path)
    return {"destination": mount.container_path, "type": "bind", "source": source, "options": options}
