"""Store of images and their layers."""

from __future__ import annotations

import contextlib
import logging
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
from msgspec import field

from nodeagent.base.structs import MutableStruct
from nodeagent_plugins.embedded_runtime.errors import FailedPrecondition, InvalidArgument, NotFound
from nodeagent_plugins.embedded_runtime.images.names import is_id, parse_name

_log = logging.getLogger(__name__)


class Image(MutableStruct):
    """One image."""

    id: str
    """Digest of the configuration."""
    layers: list[str]
    """Directory names of the layers, lowest first."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Defaults of containers: ``Env``, ``Cmd``, ``User``, …"""
    tags: list[str] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)
    """``REPOSITORY@DIGEST`` of each manifest of the image."""
    size_bytes: int = 0
    pinned: bool = False
    lent: list[str] = field(default_factory=list)
    """Paths of the node that are part of the image."""

    @property
    def reference(self) -> str:
        """Unique reference of the image in container statuses."""
        return self.digests[0] if self.digests else self.id


class ImageStore:
    """All images, one JSON file each, and the directories of their layers.

    :param root: contains ``images``, ``layers``, and ``incoming`` for incomplete data.
    """

    def __init__(self, root: Path) -> None:
        self._images_dir, self.layers_dir, self.incoming = root / "images", root / "layers", root / "incoming"
        shutil.rmtree(self.incoming, ignore_errors=True)
        for directory in (self._images_dir, self.layers_dir, self.incoming):
            directory.mkdir(parents=True, exist_ok=True)
            directory.chmod(0o700)  # Users of the node must not execute files of images, such as setuid binaries.
        self._images: dict[str, Image] = {}
        self._sizes: dict[str, tuple[int, int]] = {}
        self._held: Counter[str] = Counter()

    def load(self) -> None:
        """Load all images from disk."""
        for path in sorted(self._images_dir.glob("*.json")):
            try:
                image = msgspec.json.decode(path.read_bytes(), type=Image)
            except (ValueError, RecursionError) as error:
                _log.warning("Failed to read image record", extra={"path": str(path), "err": str(error)})
                continue
            self._images[image.id] = image

    def all(self) -> list[Image]:
        return list(self._images.values())

    def find(self, name: str) -> Image | None:
        """Return the image with the ID, name or digest *name*; ``None`` if there is none."""
        if is_id(name):
            requested = name if ":" in name else f"sha256:{name}"
            alike = [image for key, image in self._images.items() if key.startswith(requested)]
            if alike:
                return alike[0] if len(alike) == 1 else None
        try:
            full = parse_name(name)
        except InvalidArgument:
            return None
        if full.digest:
            requested = f"{full.repository}@{full.digest}"
            return next((image for image in self._images.values() if requested in image.digests), None)
        return next((image for image in self._images.values() if full.tagged in image.tags), None)

    def get(self, name: str) -> Image:
        """Return the image.

        :raises NotFound: there is no such image.
        """
        if (image := self.find(name)) is None:
            raise NotFound(f'image "{name}" not found')
        return image

    def add(self, image: Image, *, tag: str = "", digest: str = "") -> Image:
        """Store *image*, or add the names to an existing one; a tag is removed from another image."""
        known = self._images.get(image.id, image)
        for other in self.all():
            if tag and tag in other.tags and other is not known:
                other.tags.remove(tag)
                self._save(other)
        if tag and tag not in known.tags:
            known.tags.append(tag)
        if digest and digest not in known.digests:
            known.digests.append(digest)
        self._images[known.id] = known
        self._save(known)
        return known

    def remove(self, name: str) -> None:
        """Remove an image, or only the name if it has others; an unknown one is ignored.

        Layers remain until :meth:`collect`.

        :raises FailedPrecondition: the image is built in.
        """
        image = self.find(name)
        if image is None:
            return
        if image.lent or image.pinned:
            raise FailedPrecondition(f'image "{name}" is pinned')
        if not is_id(name):
            full = parse_name(name)
            if full.tagged in image.tags and len(image.tags) > 1:
                image.tags.remove(full.tagged)
                self._save(image)
                return
        del self._images[image.id]
        self._path(image).unlink(missing_ok=True)

    def layer(self, name: str) -> Path:
        """Return the directory of a layer."""
        return self.layers_dir / name

    @contextlib.contextmanager
    def hold(self, layers: Iterable[str]) -> Iterator[None]:
        """Exempt *layers* from collection while their image is loaded."""
        held = list(layers)
        self._held.update(held)
        try:
            yield
        finally:
            self._held -= Counter(held)  # Also drops those with a count of zero.

    def collect(self, in_use: Iterable[str]) -> None:
        """Remove layers that are neither part of an image nor in *in_use*."""
        kept = {*self._held, *in_use}
        kept.update(*(image.layers for image in self.all()))
        for directory in self.layers_dir.iterdir():
            if directory.name not in kept:
                _remove_tree(directory)
                self._sizes.pop(directory.name, None)

    def usage(self) -> tuple[int, int]:
        """Return bytes and files of all layers."""
        total = [0, 0]
        for directory in list(self.layers_dir.iterdir()):
            size = self._sizes.get(directory.name)
            if size is None:
                size = self._sizes[directory.name] = tree_usage(directory)
            total[0] += size[0]
            total[1] += size[1]
        return total[0], total[1]

    def _save(self, image: Image) -> None:
        path = self._path(image)
        aside = path.with_suffix(".new")
        aside.write_bytes(msgspec.json.format(msgspec.json.encode(asdict(image)), indent=1))
        aside.rename(path)

    def _path(self, image: Image) -> Path:
        return self._images_dir / f"{image.id.replace(':', '-')}.json"


def tree_usage(directory: Path) -> tuple[int, int]:
    """Return the allocated bytes and the number of files below *directory*; hard links are counted once."""
    import os

    seen: set[tuple[int, int]] = set()
    total = 0
    waiting = [str(directory)]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        for entry in entries:
            try:
                about = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if (about.st_dev, about.st_ino) not in seen:
                seen.add((about.st_dev, about.st_ino))
                total += about.st_blocks * 512
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
    return total, len(seen)


def _remove_tree(directory: Path) -> None:
    """Remove a layer, including directories without write permission."""

    def make_writable(_function: Any, path: str, _error: Any) -> None:
        target = Path(path)
        target.parent.chmod(0o700)
        if target.is_dir() and not target.is_symlink():
            target.chmod(0o700)
            shutil.rmtree(target, ignore_errors=True)
        else:
            target.unlink(missing_ok=True)

    shutil.rmtree(directory, onerror=make_writable)
