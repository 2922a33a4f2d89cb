"""Owner of tasks that do not run."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any


class RecordedTasks:
    """Records the names of tasks instead of running them."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def start(self, coroutine: Coroutine[Any, Any, Any], name: str) -> None:
        coroutine.close()
        self.names.append(name)
