"""Distribution of the tests over the processes of pytest-xdist."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

LONG_MODULES = ("tests/conformance/test_repository.py", "tests/unit/apiserver_stub/controllers/test_adversarial.py")
"""Modules that would be the only ones to run at the end."""

SHARED_FIXTURES = ("tests/integration/cri/",)
"""Directories whose modules share fixtures that are expensive to create again."""


class ModuleScheduling(LoadFileScheduling):
    """Distribution of complete modules in the order of collection, which ends with short ones."""

    def _split_scope(self, nodeid: str) -> str:
        module = super()._split_scope(nodeid)
        return next((directory for directory in SHARED_FIXTURES if module.startswith(directory)), module)

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        super().add_node_collection(node, _Collection(collection))

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Record the end of a test, and drop modules that have ended, since each call examines all modules."""
        super().mark_test_complete(node, item_index, duration)
        modules, module = self.assigned_work[node], self._split_scope(self.registered_collections[node][item_index])
        if all(modules[module].values()):
            del modules[module]


class _Collection(list[str]):
    """Names of tests whose positions are found without a search."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self._positions = {name: position for position, name in enumerate(names)}

    def index(self, name: str, *_: Any) -> int:
        return self._positions[name]


def move_long_modules_first(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(LONG_MODULES))
