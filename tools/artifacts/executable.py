"""Single-file executable: a zip archive that Python runs, with the private environment as its content.

It needs Python 3.11 or 3.13 and glibc on the host. The first start extracts the environment to a cache directory.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from tools.artifacts import environment
from tools.artifacts.packages import MODULES
from tools.artifacts.tree import Tree
from tools.artifacts.wheels import Wheel

_MAIN = Path(__file__).parent / "executable_main.py"


def write(path: Path, own: Wheel, wheels: Mapping[str, Sequence[Wheel]], time: int) -> None:
    """Write the executable to *path*."""
    tree = Tree()
    environment.add_environment(tree, "environment", own, wheels)
    digest = hashlib.sha256("".join(wheel.digest for wheel in environment.distributions(own, wheels)).encode())
    values = f"DIGEST = {digest.hexdigest()[:16]!r}\nMODULES = {MODULES!r}\nPYTHONS = {tuple(wheels)!r}\n"
    date = datetime.fromtimestamp(max(time, 315532800), UTC).timetuple()[:6]
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "__main__.py", _MAIN.read_bytes().replace(b"# values\n", values.encode()), 0o644, date)
        for name, entry in tree.files():
            data = entry.link.encode() if entry.link else entry.read() if entry.read else b""
            _add(archive, name, data, (0o120777 if entry.link else 0o100000 | entry.mode), date)
    path.write_bytes(b"#!/usr/bin/env python3\n" + content.getvalue())
    path.chmod(0o755)


def _add(archive: zipfile.ZipFile, name: str, data: bytes, mode: int, date: tuple[int, ...]) -> None:
    member = zipfile.ZipInfo(name, date)  # type: ignore[arg-type]
    member.external_attr, member.compress_type, member.create_system = mode << 16, zipfile.ZIP_DEFLATED, 3
    archive.writestr(member, data)
