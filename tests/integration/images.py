"""Small images built offline from the host's static busybox: a shell, and a pause image."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

BUSYBOX_IMAGE = "docker.io/library/busybox:1.36"
PAUSE_IMAGE = "registry.k8s.io/pause:3.9"
BUSYBOX_BINARY = Path("/bin/busybox")

# Reading a pipe without a writer: waits in one process without CPU time, and exits immediately on a signal.
PAUSE_COMMAND = ("/bin/sh", "-c", "trap 'exit 0' TERM INT; while :; do read -r _ <>/wait; done")

PASSWD = (
    "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\nweb:x:1000:1000:web:/home:/bin/sh\n"
)
GROUP = "root:x:0:\nnogroup:x:65534:\nweb:x:1000:\n"


def write_archive(path: Path) -> None:
    """Write an OCI archive with both images to *path*."""
    archive = OciArchive()
    layer = archive.add_layer(busybox_layer())
    archive.add_image(BUSYBOX_IMAGE, [layer], {"Cmd": ["sh"], "Env": ["PATH=/bin:/sbin:/usr/bin:/usr/sbin"]})
    archive.add_image(PAUSE_IMAGE, [layer], {"Entrypoint": list(PAUSE_COMMAND)})
    archive.write(path)


def busybox_layer(extra_files: Mapping[str, bytes] | None = None) -> bytes:
    """Return a layer with busybox under all its names, the usual directories and *extra_files* (path to content)."""
    applets = subprocess.run([BUSYBOX_BINARY, "--list"], check=True, capture_output=True, text=True).stdout.split()
    files = {"etc/passwd": PASSWD.encode(), "etc/group": GROUP.encode(), **(extra_files or {})}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in ("bin", "dev", "etc", "home", "proc", "root", "sys", "usr", "usr/bin", "var"):
            _add(tar, name, type=tarfile.DIRTYPE)
        _add(tar, "tmp", type=tarfile.DIRTYPE, mode=0o1777)
        _add(tar, "wait", type=tarfile.FIFOTYPE, mode=0o666)
        _add(tar, "bin/busybox", BUSYBOX_BINARY.read_bytes())
        for applet in sorted(set(applets) - {"busybox"}):
            _add(tar, f"bin/{applet}", type=tarfile.SYMTYPE, linkname="busybox")
        _add(tar, "usr/bin/env", type=tarfile.SYMTYPE, linkname="/bin/busybox")
        for name, content in sorted(files.items()):
            _add(tar, name, content, mode=0o644)
    return buffer.getvalue()


def _add(
    tar: tarfile.TarFile,
    name: str,
    content: bytes = b"",
    *,
    type: bytes = tarfile.REGTYPE,
    mode: int = 0o755,
    linkname: str = "",
) -> None:
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.linkname, info.size = type, mode, linkname, len(content)
    tar.addfile(info, io.BytesIO(content))


class OciArchive:
    """OCI image layout in one tar file; the result is reproducible."""

    def __init__(self) -> None:
        self._blobs: dict[str, bytes] = {}
        self._manifests: list[dict[str, object]] = []

    def add_layer(self, content: bytes) -> dict[str, object]:
        """Add an uncompressed layer and return its descriptor."""
        return self._add_blob("application/vnd.oci.image.layer.v1.tar", content)

    def add_image(self, name: str, layers: Sequence[dict[str, object]], config: Mapping[str, object]) -> str:
        """Add an image called *name*, repository and tag, and return the digest of its manifest."""
        machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
        image = {
            "architecture": machine,
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": self._add_blob("application/vnd.oci.image.config.v1+json", json.dumps(image).encode()),
            "layers": list(layers),
        }
        descriptor = self._add_blob(str(manifest["mediaType"]), json.dumps(manifest).encode())
        digest = str(descriptor["digest"])
        for reference in (name, f"{name.rpartition(':')[0]}@{digest}"):
            self._manifests.append({**descriptor, "annotations": {"io.containerd.image.name": reference}})
        return digest

    def write(self, path: Path) -> None:
        """Write the archive to *path*."""
        index = {"schemaVersion": 2, "manifests": self._manifests}
        with tarfile.open(path, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            _add(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}', mode=0o644)
            _add(tar, "index.json", json.dumps(index).encode(), mode=0o644)
            for digest, content in sorted(self._blobs.items()):
                _add(tar, f"blobs/sha256/{digest}", content, mode=0o644)

    def _add_blob(self, media_type: str, content: bytes) -> dict[str, object]:
        digest = hashlib.sha256(content).hexdigest()
        self._blobs[digest] = content
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}
