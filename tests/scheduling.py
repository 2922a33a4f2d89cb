"""Distribution of the tests over the processes of pytest-xdist."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling

SHARED_FIXTURES = ("tests/integration/cri/",)
"""Directories whose modules share fixtures that are expensive to create again."""


class ModuleScheduling(LoadFileScheduling):
    """Distribution of complete modules in the order of collection, which ends with the shortest ones."""

    def _split_scope(self, nodeid: str) -> str:
        module = super()._split_scope(nodeid)
        return next((directory for directory in SHARED_FIXTURES if module.startswith(directory)), module)
