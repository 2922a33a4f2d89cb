"""Isolation of the simulated server from the time of day."""

from __future__ import annotations

import contextlib
import datetime
import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import apiserver_stub

_PACKAGES = ("apiserver_stub", "nodeagent")


@contextmanager
def simulated_time_of_day(wall: Callable[[], datetime.datetime]) -> Iterator[None]:
    """Replace ``datetime.now`` in this project's modules until the end of the block.

    They are imported before, because some are otherwise imported when they are first used. Other packages and the
    class itself are unchanged: extension modules verify the types of their arguments.
    """
    real = datetime.datetime
    for module in pkgutil.walk_packages(apiserver_stub.__path__, "apiserver_stub."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):  # An optional dependency is not installed.
                importlib.import_module(module.name)

    class Meta(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, real)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, real)

    class SimulatedDatetime(datetime.datetime, metaclass=Meta):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return wall().astimezone(tz)

    _replace(real, SimulatedDatetime)
    try:
        yield
    finally:
        _replace(SimulatedDatetime, real)


def _replace(old: object, new: object) -> None:
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in _PACKAGES and vars(module).get("datetime") is old:
            module.datetime = new  # type: ignore[attr-defined]
