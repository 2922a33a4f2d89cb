"""Declaration of the options of a group."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from apiserver_stub.options import values

DURATION = "DURATION"
_PLACEHOLDERS: dict[Callable[[str], Any], str] = {
    Path: "PATH",
    values.boolean: "true|false",
    values.duration: DURATION,
    values.integer: "NUMBER",
}


class Group:
    """Titled group of options in ``--help``."""

    def __init__(self, group: argparse._ArgumentGroup) -> None:
        self._group = group

    def add(
        self,
        name: str,
        kind: Callable[[str], Any],
        text: str,
        dest: str = "",
        *,
        short: str = "",
        action: type[argparse.Action] | None = None,
    ) -> None:
        """Declare ``--name``.

        :param kind: parses the value, or raises ``argparse.ArgumentTypeError``.
        :param text: help text; ``argparse.SUPPRESS`` hides the option.
        :param dest: field of the group's class if it is not the name with underscores.
        :param action: combines repeated options; by default the last one takes effect.
        """
        names = [f"-{short}", f"--{name}"] if short else [f"--{name}"]
        optional: dict[str, Any] = {"nargs": "?", "const": True} if kind is values.boolean else {}
        if action is not None:
            optional["action"] = action
        target = dest or name.replace("-", "_")
        read = _reader(kind, ", ".join(names))
        self._group.add_argument(*names, type=read, help=text, dest=target, metavar=_placeholder(kind), **optional)


BAD_VALUE = "invalid argument "
"""Prefix of errors about values."""


def _reader(kind: Callable[[str], Any], names: str) -> Callable[[str], Any]:
    """Return *kind* with the value and the option added to its errors."""

    def read(text: str) -> Any:
        try:
            return kind(text)
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentTypeError(f'{BAD_VALUE}"{text}" for "{names}" flag: {error}') from None

    return read


def _placeholder(kind: Callable[[str], Any]) -> str:
    """Return the placeholder for the value of an option in ``--help``."""
    return _PLACEHOLDERS.get(kind, "VALUE")


class Merge(argparse.Action):
    """Merge the mappings of a repeated option."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        setattr(namespace, self.dest, {**getattr(namespace, self.dest, {}), **values})


class Extend(argparse.Action):
    """Concatenate the values of a repeated option."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        setattr(namespace, self.dest, (*getattr(namespace, self.dest, ()), *values))
