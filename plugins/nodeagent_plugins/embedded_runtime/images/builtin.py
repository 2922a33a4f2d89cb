"""Built-in images, which need no registry: they contain executables of the host, read-only for containers.

With a static busybox the image is a layer; otherwise the node's directories of executables and libraries are mounted.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from nodeagent_plugins.embedded_runtime.images.store import Image, ImageStore

HOST_NAME = "nodeagent.local/host:latest"
BUSYBOX_NAME = "docker.io/library/busybox:1.36"
BUILTIN_REGISTRY = "nodeagent.local"
BUSYBOX_PATHS = ("/usr/bin/busybox", "/bin/busybox")
EXECUTABLES = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
FILES = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/ssl/certs")
DIRECTORIES = ("dev", "etc", "home", "proc", "root", "run", "sys", "tmp", "var", "var/tmp")
USERS = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n"
GROUPS = "root:x:0:\nnogroup:x:65534:\n"
CONFIG = {"Cmd": ["sh"], "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]}


def add_builtin(store: ImageStore) -> None:
    """Add the built-in images to *store*, unless they exist and the host has not changed."""
    busybox = find_static_busybox()
    host = _host_image(store)
    if busybox is None:
        store.add(host, tag=BUSYBOX_NAME)
        return
    other = store.find(BUSYBOX_NAME)
    if other is None or other.pinned:  # A pulled or imported image takes precedence.
        store.add(_busybox_image(store, busybox), tag=BUSYBOX_NAME)


def find_static_busybox() -> Path | None:
    """Return the path of a statically linked busybox."""
    for path in map(Path, BUSYBOX_PATHS):
        # A dynamically linked executable contains the path of its loader.
        if path.is_file() and b"/ld-" not in path.read_bytes()[:8192]:
            return path
    return None


def _busybox_image(store: ImageStore, busybox: Path) -> Image:
    content = busybox.read_bytes()
    name = "busybox-" + hashlib.sha256(content).hexdigest()[:32]
    layer = store.layer(name)
    if not layer.exists():
        aside = store.incoming / name
        shutil.rmtree(aside, ignore_errors=True)
        _make_skeleton(aside)
        for directory in ("bin", "usr/bin"):
            (aside / directory).mkdir(parents=True)
        executable = aside / "bin/busybox"
        executable.write_bytes(content)
        executable.chmod(0o755)
        listed = subprocess.run([str(busybox), "--list"], check=True, capture_output=True, text=True, timeout=10).stdout
        for applet in set(listed.split()) - {"busybox"}:
            (aside / "bin" / applet).symlink_to("busybox")
        (aside / "usr/bin/env").symlink_to("/bin/busybox")
        aside.rename(layer)
    return _image(name, [name], len(content))


def _host_image(store: ImageStore) -> Image:
    present = [Path(path) for path in EXECUTABLES if os.path.lexists(path)]
    links = {str(path): str(path.readlink()) for path in present if path.is_symlink()}
    lent = [str(path) for path in present if not path.is_symlink()] + [path for path in FILES if Path(path).exists()]
    name = "host-" + hashlib.sha256(repr((lent, links)).encode()).hexdigest()[:32]
    layer = store.layer(name)
    if not layer.exists():
        aside = store.incoming / name
        shutil.rmtree(aside, ignore_errors=True)
        _make_skeleton(aside)
        for path in lent:
            target = aside / path.lstrip("/")
            if Path(path).is_dir():
                target.mkdir(parents=True, exist_ok=True)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.touch()
        for path, link in links.items():
            (aside / path.lstrip("/")).symlink_to(link)
        aside.rename(layer)
    image = _image(name, [name], 0)
    image.lent = lent
    return store.add(image, tag=HOST_NAME)


def _make_skeleton(root: Path) -> None:
    for directory in DIRECTORIES:
        (root / directory).mkdir(parents=True)
    root.chmod(0o755)
    for directory in ("tmp", "var/tmp"):
        (root / directory).chmod(0o1777)
    (root / "etc/passwd").write_text(USERS)
    (root / "etc/group").write_text(GROUPS)


def _image(name: str, layers: list[str], size: int) -> Image:
    digest = hashlib.sha256(name.encode()).hexdigest()
    return Image(id=f"sha256:{digest}", layers=layers, config=CONFIG, size_bytes=size, pinned=True)
