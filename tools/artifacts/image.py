"""OCI image of the API server: Debian's Python and the private environment, as an archive in the OCI layout."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tools.artifacts import environment, project
from tools.artifacts.packages import HOME
from tools.artifacts.tree import Tree
from tools.artifacts.wheels import Wheel

_PYTHON = "3.11"
_PACKAGES = (
    "base-files",
    "ca-certificates",
    "libbz2-1.0",
    "libc6",
    "libcrypt1",
    "libexpat1",
    "libffi8",
    "libgcc-s1",
    "liblzma5",
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
    "libsqlite3-0",
    "libssl3",
    "libstdc++6",
    "libuuid1",
    "media-types",
    "python3.11-minimal",
    "tzdata",
    "zlib1g",
)
"""Packages of Debian 12, without a shell."""
_SKIPPED = ("usr/share/doc/", "usr/share/man/", "usr/share/locale/", "usr/share/lintian/", "usr/share/ca-certificates/")
_USER = 65532
_DATA = "/var/lib/nodeagent-apiserver"


def write(
    path: Path, own: Wheel, wheels: Mapping[str, Sequence[Wheel]], cache: Path, time: int
) -> list[tuple[str, str]]:
    """Write the image to *path*, and return the names and versions of its Debian packages."""
    files = _download(cache / "debian")
    layers = [_layer(_base(files), time), _layer(_application(own, {_PYTHON: wheels[_PYTHON]}), time)]
    created = datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    config = {
        "created": created,
        "architecture": project.architecture(),
        "os": "linux",
        "config": {
            "User": f"{_USER}:{_USER}",
            "ExposedPorts": {"6443/tcp": {}},
            "Env": ["PATH=/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE=1"],
            "Entrypoint": [f"/{HOME}/bin/python", "-P", "-m", "apiserver_stub"],
            "Cmd": [f"--data-dir={_DATA}"],
            "Volumes": {_DATA: {}},
            "WorkingDir": "/",
            "Labels": {"org.opencontainers.image.title": "nodeagent-apiserver"},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_digest(tar)}" for tar, _ in layers]},
        "history": [{"created": created, "created_by": "make dist"} for _ in layers],
    }
    blobs = {_digest(packed): packed for _, packed in layers}
    media = "application/vnd.oci.image"
    config_descriptor = _blob(blobs, f"{media}.config.v1+json", _json(config))
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{media}.manifest.v1+json",
        "config": config_descriptor,
        "layers": [_described(f"{media}.layer.v1.tar+gzip", packed) for _, packed in layers],
    }
    name = f"localhost/nodeagent-apiserver:{project.version()}"
    entry = _blob(blobs, f"{media}.manifest.v1+json", _json(manifest))
    entry["annotations"] = {
        "io.containerd.image.name": name,
        "org.opencontainers.image.ref.name": project.version(),
    }
    entry["platform"] = {"architecture": project.architecture(), "os": "linux"}
    tree = Tree()
    tree.add("oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
    tree.add("index.json", _json({"schemaVersion": 2, "mediaType": f"{media}.index.v1+json", "manifests": [entry]}))
    for digest, content in blobs.items():
        tree.add(f"blobs/sha256/{digest}", content)
    with path.open("wb") as file:
        tree.write_tar(file, time, prefix="")
    return [(name, version) for name, version in map(_identity, files)]


def _download(directory: Path) -> list[Path]:
    directory.mkdir(parents=True, exist_ok=True)
    present = {path.name.partition("_")[0] for path in directory.glob("*.deb")}
    if missing := [name for name in _PACKAGES if name not in present]:
        subprocess.run(["apt-get", "download", "--quiet=2", *missing], cwd=directory, check=True)
    return [next(iter(sorted(directory.glob(f"{name}_*.deb")))) for name in _PACKAGES]


def _identity(path: Path) -> tuple[str, str]:
    command = ["dpkg-deb", "--show", "--showformat=${Package} ${Version}", str(path)]
    name, version = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return name, version


def _base(packages: Sequence[Path]) -> Tree:
    """Return the files of the packages on a merged ``/usr``, with the CA bundle that their scripts would create."""
    tree = Tree()
    bundle = []
    for path in packages:
        data = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(path)], capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive:
                name = member.name.removeprefix("./").strip("/")
                top = name.partition("/")[0]
                merged = f"usr/{name}" if top in ("bin", "lib", "lib64", "sbin") else name
                if name.startswith("usr/share/ca-certificates/mozilla/") and member.isfile():
                    bundle.append(_content(archive, member))
                if not name or member.isdir() or (merged.startswith(_SKIPPED) and not name.endswith("/copyright")):
                    continue
                if member.issym():
                    tree.link(merged, member.linkname)
                else:
                    tree.add(merged, _content(archive, member), member.mode & 0o777)
    for top in ("bin", "lib", "lib64", "sbin"):
        tree.link(top, f"usr/{top}")
    tree.directory("usr/lib64")
    tree.directory("usr/sbin")
    tree.link("usr/bin/python3", f"python{_PYTHON}")
    tree.add("etc/ssl/certs/ca-certificates.crt", b"".join(bundle))
    tree.add(
        "etc/passwd", f"root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:{_USER}:{_USER}::/:/sbin/nologin\n".encode()
    )
    tree.add("etc/group", f"root:x:0:\nnonroot:x:{_USER}:\n".encode())
    tree.directory("tmp", 0o1777)
    return tree


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    return file.read() if file is not None else b""


def _application(own: Wheel, wheels: Mapping[str, Sequence[Wheel]]) -> Tree:
    tree = Tree()
    environment.add_environment(tree, HOME, own, wheels)
    # Any user of a container can write its data; volumes that are mounted here have their own modes.
    tree.directory(_DATA, 0o1777)
    return tree


def _layer(tree: Tree, time: int) -> tuple[bytes, bytes]:
    """Return the layer, uncompressed and compressed."""
    stream = io.BytesIO()
    tree.write_tar(stream, time, prefix="")
    return stream.getvalue(), gzip.compress(stream.getvalue(), 6, mtime=0)


def _blob(blobs: dict[str, bytes], media_type: str, content: bytes) -> dict[str, Any]:
    blobs[_digest(content)] = content
    return _described(media_type, content)


def _described(media_type: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": f"sha256:{_digest(content)}", "size": len(content)}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
