"""Files that are replaced atomically and survive a loss of power."""

from __future__ import annotations

import os
from pathlib import Path


def write_private(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Write *data* to *path* atomically, readable only by the owner unless *mode* permits more.

    :raises OSError: the file cannot be written; the previous one remains.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not a file of ``tempfile``, which loads the compression libraries.
    temporary = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        try:
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
