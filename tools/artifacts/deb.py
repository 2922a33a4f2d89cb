"""Debian packages: a deterministic writer of the ``.deb`` format, deb(5)."""

from __future__ import annotations

import hashlib
import io
import lzma
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.artifacts.tree import Tree

_PRESET = 1
"""Packages are 5 % larger than with preset 6, and built four times faster."""


@dataclass
class Package:
    """Content of a package."""

    name: str
    fields: Mapping[str, str]
    """Control fields except for Package, Version, Architecture, Maintainer and Installed-Size."""
    tree: Tree = field(default_factory=Tree)
    conffiles: list[str] = field(default_factory=list)
    scripts: dict[str, str] = field(default_factory=dict)
    """Maintainer scripts by name."""


def write(package: Package, version: str, architecture: str, maintainer: str, time: int, directory: Path) -> Path:
    """Write *package* to *directory* and return the path."""
    path = directory / f"{package.name}_{version}_{architecture}.deb"
    data = io.BytesIO()
    package.tree.write_tar(data, time)
    size = sum(1 if entry.read is None else -(-len(entry.read()) // 1024) for _, entry in package.tree.entries())
    fields = {"Package": package.name, "Version": version, "Architecture": architecture, "Maintainer": maintainer}
    fields |= {"Installed-Size": str(size), **package.fields}
    control = Tree()
    control.add("control", "".join(f"{name}: {value}\n" for name, value in fields.items()).encode())
    control.add("md5sums", "".join(_sums(package.tree, package.conffiles)).encode())
    if package.conffiles:
        control.add("conffiles", "".join(f"/{name.strip('/')}\n" for name in package.conffiles).encode())
    for name, text in package.scripts.items():
        control.add(name, text.encode(), 0o755)
    archive = io.BytesIO()
    control.write_tar(archive, time)
    members = [("debian-binary", b"2.0\n"), ("control.tar.xz", _xz(archive)), ("data.tar.xz", _xz(data))]
    with path.open("wb") as file:
        file.write(b"!<arch>\n")
        for name, content in members:
            file.write(f"{name:<16}{time:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode())
            file.write(content + b"\n" * (len(content) % 2))
    return path


def _xz(stream: io.BytesIO) -> bytes:
    return lzma.compress(stream.getbuffer(), preset=_PRESET)


def _sums(tree: Tree, conffiles: Sequence[str]) -> list[str]:
    skipped = {name.strip("/") for name in conffiles}
    found = []
    for name, entry in tree.files():
        if entry.read is not None and name not in skipped:
            found.append(f"{hashlib.md5(entry.read(), usedforsecurity=False).hexdigest()}  {name}\n")
    return found
