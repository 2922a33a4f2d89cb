"""Mounts that are prepared in the directory of a container, because OCI runtimes do not support their attributes.

These are images, recursive read-only mounts and mounts with mapped owners of files. The OCI runtime bind-mounts the
prepared mount.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.base.structs import Struct
from nodeagent_plugins.embedded_runtime import paths
from nodeagent_plugins.embedded_runtime.errors import CallError, FailedPrecondition
from nodeagent_plugins.embedded_runtime.helpers import syscalls
from nodeagent_plugins.embedded_runtime.rootfs import RootFileSystems

IMAGE_ATTRIBUTES = (
    syscalls.MOUNT_ATTR_RDONLY | syscalls.MOUNT_ATTR_NOEXEC | syscalls.MOUNT_ATTR_NOSUID | syscalls.MOUNT_ATTR_NODEV
)
_IMAGE_ERROR = "ImageVolumeMountFailed"


class MountSources(Struct, frozen=True):
    """Prepares the sources of a container's mounts.

    :ivar directory: directory of the container.
    :ivar layers: returns the layers of an image, lowest first.
    :ivar user_namespace: descriptor of the pod's user namespace, or -1.
    """

    directory: Path
    roots: RootFileSystems
    layers: Callable[[str], Sequence[Path]]
    user_namespace: int = -1

    def prepare(self, mounts: Sequence[cri.Mount]) -> list[str]:
        """Return the path to bind-mount for each of *mounts*.

        :raises CallError: a source cannot be mounted; mounts made so far remain until the container is removed.
        """
        return [self._prepare(str(number), mount) for number, mount in enumerate(mounts)]

    def _prepare(self, name: str, mount: cri.Mount) -> str:
        if is_image(mount):
            return self._image(name, mount)
        source = str(Path(mount.host_path).resolve())
        mapped = bool(mount.uidMappings or mount.gidMappings)
        if not mount.recursive_read_only and not mapped:
            return source
        if mapped and self.user_namespace < 0:
            raise FailedPrecondition(f"mount {mount.container_path}: ID mappings require a user namespace of the pod")
        attributes = syscalls.MOUNT_ATTR_RDONLY if mount.recursive_read_only else 0
        try:
            return self._clone(name, source, attributes, self.user_namespace if mapped else -1)
        except OSError as error:
            raise FailedPrecondition(f"mount {mount.container_path}: {error}") from error

    def map_owners(self, source: str) -> str:
        """Return the path to bind-mount for *source*, a path of the host, with owners mapped to those of the pod.

        :raises FailedPrecondition: the file system does not support mapped owners.
        """
        if self.user_namespace < 0:
            return source
        number = len(list((self.directory / "mounts").glob("cdi-*")))
        try:
            return self._clone(f"cdi-{number}", str(Path(source).resolve()), 0, self.user_namespace)
        except OSError as error:
            raise FailedPrecondition(f"mount of {source}: {error}") from error

    def _image(self, name: str, mount: cri.Mount) -> str:
        try:
            content = self.directory / "images" / name
            content.mkdir(parents=True)
            self.roots.mount_layers(content, self.layers(mount.image.image), self.user_namespace)
            source = paths.resolve_in_root(content, mount.image_sub_path)
            if not source.exists():
                raise FileNotFoundError(f"the image has no {mount.image_sub_path}")
            return self._clone(name, str(source), IMAGE_ATTRIBUTES)
        except OSError as error:
            raise CallError(f"{_IMAGE_ERROR}: mount {mount.container_path}: {error}") from error

    def _clone(self, name: str, source: str, attributes: int, user_namespace: int = -1) -> str:
        target = self.directory / "mounts" / name
        target.parent.mkdir(exist_ok=True)
        if Path(source).is_dir():
            target.mkdir()
        else:
            target.touch()
        syscalls.clone_mount(source, str(target), attributes, user_namespace)
        return str(target)


def is_image(mount: cri.Mount) -> bool:
    """Return whether the source is the content of an image."""
    return bool(mount.image.image)
