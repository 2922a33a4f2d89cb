"""Requests that have the anonymous user. No I/O."""

from __future__ import annotations

from nodeagent.base.structs import Struct


class AnonymousAccess(Struct, frozen=True):
    """Access without credentials, to all paths or to some (feature gate ``AnonymousAuthConfigurableEndpoints``)."""

    enabled: bool = True
    paths: frozenset[str] = frozenset()
    """Permitted paths; empty for all."""

    def permits(self, path: str) -> bool:
        """Return whether a request for *path* without credentials has the anonymous user."""
        return self.enabled and (not self.paths or path in self.paths)
