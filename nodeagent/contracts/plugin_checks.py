"""Checks of ``nodeagent plugins check`` for plugins that are not Python modules."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from nodeagent.base.structs import Struct


class PluginCheck(Struct, frozen=True):
    """A check of projects that contain a file of a certain name.

    :param file_name: name of the file in the project's directory.
    :param run: returns the problems of the project in the directory, as messages; runs the plugin's code.
    """

    file_name: str
    run: Callable[[Path], Awaitable[Sequence[str]]]
