"""Volumes of the driver on disk."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Protocol

_BIND, _READ_ONLY, _REMOUNT = 0x1000, 0x1, 0x20
DEFAULT_SIZE = 1 << 20
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Mounts(Protocol):
    """Mounts of the driver."""

    def bind(self, source: Path, target: Path, *, read_only: bool) -> None: ...

    def unmount(self, target: Path) -> None:
        """Unmount all mounts at *target*."""
        ...

    def attach(self, image: Path) -> Path:
        """Return a block device with the content of *image*."""
        ...

    def detach(self, image: Path) -> None:
        """Remove the device of *image*."""
        ...


class BindMounts:
    """Bind mounts; requires root."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)

    def bind(self, source: Path, target: Path, *, read_only: bool) -> None:
        self._check(self._libc.mount(bytes(source), bytes(target), None, _BIND, None), target)
        if read_only:
            self._check(self._libc.mount(None, bytes(target), None, _BIND | _REMOUNT | _READ_ONLY, None), target)

    def unmount(self, target: Path) -> None:
        while self._libc.umount2(bytes(target), 8) == 0:
            pass
        if ctypes.get_errno() not in (errno.EINVAL, errno.ENOENT):
            self._check(-1, target)

    def attach(self, image: Path) -> Path:
        found = self._devices(image) or self._losetup("--find", "--show", str(image)).split()
        return Path(found[0])

    def detach(self, image: Path) -> None:
        for device in self._devices(image):
            self._losetup("--detach", device)

    def _devices(self, image: Path) -> list[str]:
        return self._losetup("--associated", str(image), "--noheadings", "--output", "NAME").split()

    @staticmethod
    def _losetup(*arguments: str) -> str:
        return subprocess.run(["losetup", *arguments], check=True, capture_output=True, text=True).stdout

    def _check(self, result: int, target: Path) -> None:
        if result != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(target))


class NoMounts:
    """Directories instead of mounts, for tests without root."""

    def bind(self, source: Path, target: Path, *, read_only: bool) -> None:
        assert source.exists() and target.exists()

    def unmount(self, target: Path) -> None:
        pass

    def attach(self, image: Path) -> Path:
        return image

    def detach(self, image: Path) -> None:
        pass


class Storage:
    """Volumes, and records of their staging and target paths."""

    def __init__(self, directory: Path, mounts: Mounts) -> None:
        self.directory, self.mounts = directory, mounts
        for name in ("volumes", "staged", "published"):
            (directory / name).mkdir(parents=True, exist_ok=True)
        self._forget_earlier_boot()
        self._calls = directory / "calls.jsonl"

    # --- calls ------------------------------------------------------------------------------------------------

    def record(self, method: str, request: dict[str, object]) -> None:
        """Append a call, for assertions."""
        with self._calls.open("a") as file:
            file.write(json.dumps({"method": method, **request}) + "\n")

    def calls(self, method: str = "") -> list[dict[str, object]]:
        """Return the recorded calls."""
        with contextlib.suppress(FileNotFoundError):
            calls = [json.loads(line) for line in self._calls.read_text().splitlines()]
            return [call for call in calls if method in ("", call["method"])]
        return []

    def violate(self, text: str) -> None:
        """Record a call in a forbidden order."""
        with (self.directory / "violations").open("a") as file:
            file.write(f"{text}\n")

    def violations(self) -> list[str]:
        """Return the recorded calls in a forbidden order."""
        file = self.directory / "violations"
        return file.read_text().splitlines() if file.exists() else []

    def methods(self) -> list[str]:
        """Return the names of the recorded calls that change a volume."""
        queries = {"NodeGetCapabilities", "NodeGetInfo", "NodeGetVolumeStats"}
        return [str(call["method"]) for call in self.calls() if call["method"] not in queries]

    # --- volumes ----------------------------------------------------------------------------------------------

    def volume(self, volume_id: str, *, block: bool) -> Path:
        """Return the directory or image file of a volume, created if it does not exist."""
        path = self.directory / "volumes" / _key(volume_id)
        if block:
            path = path.with_suffix(".img")
            if not path.exists():
                with path.open("wb") as file:
                    file.truncate(DEFAULT_SIZE)
        else:
            path.mkdir(exist_ok=True)
        return path

    def size(self, volume_id: str) -> int:
        """Return the size of a volume in bytes."""
        return int(self._record("volumes", f"{volume_id}.size").get("size") or DEFAULT_SIZE)

    def expand(self, volume_id: str, size: int) -> None:
        self._save("volumes", f"{volume_id}.size", {"size": str(size)})
        image = (self.directory / "volumes" / _key(volume_id)).with_suffix(".img")
        if image.exists():
            os.truncate(image, size)

    def detach(self, volume_id: str) -> None:
        """Remove the device of a block volume; others are ignored."""
        image = (self.directory / "volumes" / _key(volume_id)).with_suffix(".img")
        if image.exists():
            self.mounts.detach(image)

    def stage(self, volume_id: str, path: str) -> None:
        self._save("staged", volume_id, {"volume": volume_id, "path": path})

    def staged(self, volume_id: str) -> str:
        """Return the staging path of a volume; empty if it is not staged."""
        return self._record("staged", volume_id).get("path", "")

    def unstage(self, volume_id: str) -> None:
        (self.directory / "staged" / _key(volume_id)).unlink(missing_ok=True)

    def publish(self, volume_id: str, target: str) -> None:
        self._save("published", target, {"volume": volume_id, "path": target})

    def unpublish(self, target: str) -> None:
        (self.directory / "published" / _key(target)).unlink(missing_ok=True)

    def published(self, volume_id: str = "") -> list[str]:
        """Return the target paths of a volume, or of all volumes."""
        records = [json.loads(file.read_text()) for file in (self.directory / "published").iterdir()]
        return sorted(record["path"] for record in records if volume_id in ("", record["volume"]))

    def all_staged(self) -> list[str]:
        """Return the identifiers of the staged volumes."""
        return sorted(json.loads(file.read_text())["volume"] for file in (self.directory / "staged").iterdir())

    def _forget_earlier_boot(self) -> None:
        """Drop the records of mounts that a restart of the host has removed."""
        boot, file = _BOOT_ID.read_text(), self.directory / "boot_id"
        if file.exists() and file.read_text() != boot:
            for kind in ("staged", "published"):
                for record in (self.directory / kind).iterdir():
                    record.unlink()
        file.write_text(boot)

    def _record(self, kind: str, name: str) -> dict[str, str]:
        try:
            return json.loads((self.directory / kind / _key(name)).read_text())
        except FileNotFoundError:
            return {}

    def _save(self, kind: str, name: str, record: dict[str, str]) -> None:
        file = self.directory / kind / _key(name)
        aside = self.directory / f".{_key(name)}.new"
        aside.write_text(json.dumps(record))
        aside.replace(file)


def _key(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:32]
