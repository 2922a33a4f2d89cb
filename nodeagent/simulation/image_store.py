"""Disk of the images of the simulated runtime."""

from __future__ import annotations


class NoSpace(Exception):
    """An image does not fit on its disk."""


class ImageStore:
    """Disk of the images: unlimited, with images of one size.

    :ivar mount_point: that of its file system.
    """

    mount_point = "/simulated/images"

    def size(self, name: str) -> int:
        """Return the size of an image in bytes."""
        return 1_000_000

    def reserve(self, name: str) -> None:
        """Reserve the space of a new image.

        :raises NoSpace: it does not fit.
        """
