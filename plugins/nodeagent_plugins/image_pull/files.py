"""Credentials of the node itself, for the pods of all namespaces: files as container tools write them.

A ``config.json`` is looked for in the root directory, the working directory, ``$HOME/.docker`` and ``/.docker``; where
there is none, the older ``.dockercfg`` in the root directory, the working directory, ``$HOME`` and ``/``. The first
that can be read counts. Files are read at each pull, so that a changed one counts at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nodeagent.contracts.runtime import Credentials
from nodeagent.model.registry import Keyring
from nodeagent_plugins.image_pull.keyring import read_registry_file

_log = logging.getLogger(__name__)

_MAX_BYTES = 1 << 20


@dataclass(slots=True)
class RegistryFiles:
    """Keeps the contract of :class:`~nodeagent.contracts.images.CredentialProvider`; where to look, in order."""

    new: Sequence[Path]
    old: Sequence[Path]
    _told: set[str] = field(default_factory=set)

    @classmethod
    def of_node(cls, root: Path) -> RegistryFiles:
        """Return the places of a node whose root directory is *root*."""
        working, top = Path(), Path("/")
        home = Path(os.environ.get("HOME") or top)
        return cls(
            [place / "config.json" for place in (root, working, home / ".docker", top / ".docker")],
            [place / ".dockercfg" for place in (root, working, home, top)],
        )

    async def credentials(self, image: str) -> Sequence[Credentials]:
        """Return what may open *image*'s registry, the most specific first."""
        return await asyncio.to_thread(self._lookup, image)

    def _lookup(self, repository: str) -> list[Credentials]:
        for old, files in ((False, self.new), (True, self.old)):
            for file in files:
                found = self._read(file, old=old)
                if found is not None:
                    return found.lookup(repository)
        return []

    def _read(self, file: Path, *, old: bool) -> Keyring[Credentials] | None:
        try:
            with file.open("rb") as opened:
                return read_registry_file(str(file), opened.read(_MAX_BYTES), old=old)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            if str(error) not in self._told:
                self._told.add(str(error))
                _log.warning("Credentials of the node cannot be read", extra={"file": str(file), "err": str(error)})
            return None
