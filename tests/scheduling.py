"""Distribution of the tests over the processes of pytest-xdist."""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadFileScheduling

LONG_MODULES = ("tests/conformance/test_repository.py", "tests/unit/apiserver_stub/controllers/test_adversarial.py")
"""Modules that would be the only ones to run at the end."""

SHARED_FIXTURES = ("tests/integration/cri/",)
"""Directories whose modules share fixtures that are expensive to create again."""


class ModuleScheduling(LoadFileScheduling):
    """Distribution of complete modules in the order of collection, which ends with short ones."""

    def _split_scope(self, nodeid: str) -> str:
        module = super()._split_scope(nodeid)
        return next((directory for directory in SHARED_FIXTURES if module.startswith(directory)), module)


def move_long_modules_first(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(LONG_MODULES))
