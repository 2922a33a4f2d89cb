"""User namespaces of pods: mappings of IDs, and detection of the kernel's support."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.base.structs import Struct
from nodeagent_plugins.embedded_runtime.errors import CallError, InvalidArgument
from nodeagent_plugins.embedded_runtime.fork_server import ForkServer
from nodeagent_plugins.embedded_runtime.host import Host
from nodeagent_plugins.embedded_runtime.passable_root import find_closed
from nodeagent_plugins.embedded_runtime.processes import Process
from nodeagent_plugins.embedded_runtime.rootfs import RootFileSystems

TRIAL = "0 65536 65536"
TRIAL_SECONDS = 30.0


class IdMappings(Struct, frozen=True):
    """Mappings of user and group IDs."""

    uids: Sequence[cri.IDMapping]
    gids: Sequence[cri.IDMapping]

    @property
    def root(self) -> tuple[int, int]:
        """User and group of the host that are root in the namespace."""
        return _host_id(self.uids), _host_id(self.gids)

    def on_host(self, uid: int, gid: int) -> tuple[int, int]:
        """Return the user and group of the host for IDs of the namespace; those of root for IDs without mapping."""
        return _host_id(self.uids, uid), _host_id(self.gids, gid)

    def arguments(self) -> list[str]:
        """Return the arguments of the pause process."""
        return [f"uid_map={_text(self.uids)}", f"gid_map={_text(self.gids)}"]

    def spec(self) -> dict[str, Any]:
        """Return the mappings in the OCI configuration."""
        return {"uidMappings": list(map(_oci, self.uids)), "gidMappings": list(map(_oci, self.gids))}


def mappings_of(options: cri.NamespaceOption) -> IdMappings | None:
    """Return the mappings of a sandbox; ``None`` if it uses the user namespace of the node.

    :raises InvalidArgument: root is not mapped.
    """
    users = options.userns_options
    if users.mode != cri.POD or not (users.uids or users.gids):
        return None
    for mappings in (users.uids, users.gids):
        if not any(mapping.container_id == 0 and mapping.length for mapping in mappings):
            raise InvalidArgument("the user namespace must map user and group 0")
    return IdMappings(tuple(users.uids), tuple(users.gids))


@contextmanager
def opened(path: str) -> Iterator[int]:
    """Yield a descriptor of the user namespace at *path*; -1 for an empty one."""
    if not path:
        yield -1
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


async def find_problem(root: Path, host: Host, roots: RootFileSystems, helpers: ForkServer) -> str:
    """Return why pods cannot have user namespaces on this host; empty if they can."""
    if host.remapped or host.chrooted:
        return "the runtime is not root, or in a chroot"
    if closed := find_closed(root):
        return f"directory {closed} is not accessible to other users, such as the mapped ones"
    try:
        arguments = ("", "", f"uid_map={TRIAL}", f"gid_map={TRIAL}")
        attempt = "create a user namespace"
        output = await helpers.run("pause", *arguments, attempt=attempt, timeout_seconds=TRIAL_SECONDS)
        holder = Process.of(int(output))
        if holder is None:
            return "the process in the user namespace exited"
        try:
            _try_mounts(root, roots, f"/proc/{holder.pid}/ns/user")
        finally:
            await holder.end(0)
    except (CallError, OSError, ValueError) as error:
        return str(error)
    return ""


def _try_mounts(root: Path, roots: RootFileSystems, path: str) -> None:
    """Mount a root file system with mapped owners, in a temporary directory on *root*."""
    with tempfile.TemporaryDirectory(dir=root, prefix="userns-trial-") as name, opened(path) as namespace:
        directory, layer = Path(name), Path(name, "layer")
        layer.mkdir()
        try:
            roots.make(directory, [layer], namespace, (65536, 65536))
        finally:
            roots.remove(directory)


def _host_id(mappings: Sequence[cri.IDMapping], number: int = 0) -> int:
    for mapping in mappings:
        if mapping.container_id <= number < mapping.container_id + mapping.length:
            return mapping.host_id + number - mapping.container_id
    return _host_id(mappings)


def _text(mappings: Sequence[cri.IDMapping]) -> str:
    return "\n".join(f"{mapping.container_id} {mapping.host_id} {mapping.length}" for mapping in mappings)


def _oci(mapping: cri.IDMapping) -> dict[str, int]:
    return {"containerID": mapping.container_id, "hostID": mapping.host_id, "size": mapping.length}
