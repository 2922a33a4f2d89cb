"""Registry credentials of the node, for pods of all namespaces: files in the format of container tools.

The search order for ``config.json`` is the root directory, the working directory, ``$HOME/.docker`` and ``/.docker``;
then for the older ``.dockercfg`` the root directory, the working directory, ``$HOME`` and ``/``. The first readable
file is used. Files are read at each pull, so that changes take effect immediately.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import field

from nodeagent.base.structs import MutableStruct
from nodeagent.contracts.runtime import Credentials
from nodeagent.model.pod import Pod
from nodeagent.model.registry import Keyring
from nodeagent_plugins.image_pull.keyring import read_registry_file

_log = logging.getLogger(__name__)

_MAX_BYTES = 1 << 20


class RegistryFiles(MutableStruct):
    """Implements :class:`~nodeagent.contracts.images.CredentialProvider` with files in search order."""

    new: Sequence[Path]
    old: Sequence[Path]
    _logged: set[str] = field(default_factory=set)

    @classmethod
    def of_node(cls, root: Path) -> RegistryFiles:
        """Return the search paths of a node with the root directory *root*."""
        working, top = Path(), Path("/")
        home = Path(os.environ.get("HOME") or top)
        return cls(
            [directory / "config.json" for directory in (root, working, home / ".docker", top / ".docker")],
            [directory / ".dockercfg" for directory in (root, working, home, top)],
        )

    async def credentials(self, image: str, pod: Pod | None = None) -> Sequence[Credentials]:
        """Return the credentials for *image*'s registry, most specific first."""
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
            if str(error) not in self._logged:
                self._logged.add(str(error))
                _log.warning(
                    "Failed to read registry credentials of the node", extra={"path": str(file), "err": str(error)}
                )
            return None
