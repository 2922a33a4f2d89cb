"""Device nodes of containers: those of the container configuration, and all devices for privileged containers.

A container in a user namespace cannot create devices: nodes are bind-mounted, from nodes with mapped owners in the
directory of the container, or, if the runtime itself is in a user namespace, from the host.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.base.structs import Struct
from nodeagent_plugins.embedded_runtime.errors import InvalidArgument
from nodeagent_plugins.embedded_runtime.host import Host
from nodeagent_plugins.embedded_runtime.id_mappings import IdMappings

_KINDS = {"c": stat.S_IFCHR, "b": stat.S_IFBLK, "p": stat.S_IFIFO}


class DeviceNode(Struct, frozen=True):
    """A device node in a container."""

    target: str
    """Path in the container."""
    source: str
    """Path on the host, which may not exist."""
    kind: str
    """``c``, ``b``, or ``p`` for a FIFO."""
    major: int
    minor: int
    mode: int
    uid: int = 0
    gid: int = 0
    """Owner in the container."""
    access: str = "rwm"
    """Access that the device cgroup allows; may be empty."""


class DeviceSetup(Struct, frozen=True):
    """Way in which a container gets its device nodes.

    :ivar users: mappings of the pod's user namespace, if it has one.
    :ivar directory: directory of the container, for nodes with mapped owners.
    """

    host: Host
    users: IdMappings | None = None
    directory: Path | None = None

    def add(self, spec: dict[str, Any], node: DeviceNode) -> None:
        """Add a node to an OCI configuration; it replaces an earlier one at the same path.

        :raises OSError: the node cannot be created.
        """
        linux = spec["linux"]
        linux["devices"] = [known for known in linux.get("devices", ()) if known["path"] != node.target]
        if self.host.remapped or self.users is not None:
            source = node.source if self.host.remapped else self._create(node)
            spec["mounts"] = [mount for mount in spec["mounts"] if mount["destination"] != node.target]
            mount = {"destination": node.target, "type": "bind", "source": source, "options": ["bind", "rw"]}
            spec["mounts"].append(mount)
        else:
            about = {"path": node.target, "type": node.kind, "fileMode": node.mode, "uid": node.uid, "gid": node.gid}
            numbers = {} if node.kind == "p" else {"major": node.major, "minor": node.minor}
            linux["devices"].append(about | numbers)
        if not linux["devices"]:
            del linux["devices"]
        if self.host.cgroup_version and node.kind != "p" and node.access:
            rule = {"allow": True, "type": node.kind, "major": node.major, "minor": node.minor, "access": node.access}
            linux["resources"].setdefault("devices", []).append(rule)

    def _create(self, node: DeviceNode) -> str:
        """Create the node in the directory of the container and return its path."""
        assert self.users is not None and self.directory is not None
        directory = self.directory / "devices"
        directory.mkdir(exist_ok=True)
        path = directory / str(len(list(directory.iterdir())))
        os.mknod(path, _KINDS[node.kind] | node.mode, os.makedev(node.major, node.minor))
        os.chown(path, *self.users.on_host(node.uid, node.gid))
        path.chmod(node.mode)
        return str(path)


def add_devices(spec: dict[str, Any], config: cri.ContainerConfig, setup: DeviceSetup) -> None:
    """Allow the devices of the container: all devices if it is privileged.

    :raises InvalidArgument: a device of the configuration does not exist.
    """
    privileged, remapped = config.linux.security_context.privileged, setup.host.remapped or setup.users is not None
    if setup.host.cgroup_version:
        spec["linux"]["resources"]["devices"] = [{"allow": privileged, "access": "rwm"}]
    requested = []
    if privileged and not remapped:
        requested = [(str(path), str(path), "rwm") for path in _all_devices(Path("/dev"))]
    requested += [(device.host_path, device.container_path, device.permissions or "rwm") for device in config.devices]
    for source, target, access in requested:
        for node in _nodes(source, target, access):
            setup.add(spec, node)


def _nodes(source: str, target: str, access: str) -> Iterable[DeviceNode]:
    """Yield the device at *source*, or all devices of a directory."""
    try:
        about = Path(source).stat()
    except OSError as error:
        raise InvalidArgument(f"device {source}: {error.strerror}") from error
    if stat.S_ISDIR(about.st_mode):
        for path in _all_devices(Path(source)):
            yield from _nodes(str(path), f"{target.rstrip('/')}/{path.relative_to(source)}", access)
        return
    if not stat.S_ISCHR(about.st_mode) and not stat.S_ISBLK(about.st_mode):
        raise InvalidArgument(f"device {source}: not a device")
    kind = "c" if stat.S_ISCHR(about.st_mode) else "b"
    major, minor, mode = os.major(about.st_rdev), os.minor(about.st_rdev), stat.S_IMODE(about.st_mode)
    yield DeviceNode(target, source, kind, major, minor, mode, about.st_uid, about.st_gid, access)


def _all_devices(directory: Path) -> list[Path]:
    """Return the devices below *directory*, except terminals and the container's standard devices."""
    found: list[Path] = []
    for path in sorted(directory.iterdir()):
        if path.is_symlink() or path.name in ("pts", "shm", "fd", "mqueue", "console", "ptmx"):
            continue
        if path.is_dir():
            found += _all_devices(path)
        elif path.is_char_device() or path.is_block_device():
            found.append(path)
    return found
