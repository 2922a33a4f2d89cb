"""Command-line parser that collects all errors instead of exiting at the first one."""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, NoReturn

from apiserver_stub.options.declare import BAD_VALUE, Group
from apiserver_stub.options.flag_aliases import resolve_aliases
from nodeagent.base.release import BUILD, OLDEST

_VERSION_HELP = "Print the version and exit; =raw prints only the version, =vX.Y.Z-TEXT sets the reported version."


_EPILOG = (
    "No option is required: certificates and an administrator's kubeconfig are generated at the first start, and the "
    "next command to run is printed. DURATION is a number with a unit, such as 90s, 5m or 1h30m. A boolean option "
    "without a value is true."
)
_WIDTH, _NAMES_WIDTH = 100, 30


class OptionsError(Exception):
    """The command line is invalid; :attr:`problems` contains one message per error."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)


class Parser:
    """Parser of the command line."""

    def __init__(self) -> None:
        self._parser = _Collecting(
            prog="nodeagent-apiserver",
            usage="nodeagent-apiserver [--OPTION=VALUE ...]",
            description="A lightweight Kubernetes API server for one or a few nodes, with durable storage.",
            epilog=_EPILOG,
            formatter_class=_Wide,
            allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
        )
        self._parser.add_argument("--version", nargs="?", action=_Version, metavar="raw", help=_VERSION_HELP)

    @property
    def arguments(self) -> argparse.ArgumentParser:
        return self._parser

    def group(self, title: str) -> Group:
        return Group(self._parser.add_argument_group(title))

    def parse(self, arguments: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
        """Return the specified values by field, and the errors.

        :raises OptionsError: a value is invalid.
        """
        self._parser.problems = []
        found, rest = self._parser.parse_known_args(resolve_aliases(arguments))
        return vars(found), [*self._parser.problems, *(_unknown(argument) for argument in rest)]


class _Collecting(argparse.ArgumentParser):
    problems: list[str]

    def error(self, message: str) -> NoReturn:
        _, _, rest = message.partition(": ")  # The prefix names the option, which errors about values contain too.
        raise OptionsError([*self.problems, rest if rest.startswith(BAD_VALUE) else message])


class _Wide(argparse.HelpFormatter):
    """Help formatter with a limited line width and without line breaks at hyphens."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=_NAMES_WIDTH, width=min(_WIDTH, _columns()))

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False, break_long_words=False)


class _Version(argparse.Action):
    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        from apiserver_stub.apimachinery.version import git_version

        if values is not None and values.startswith("v"):
            namespace.reported_version = values  # Compared with the release when all options are known.
            return
        if values == "false":
            return
        if values not in (None, "true", "raw"):
            text = f'strconv.ParseBool: parsing "{values}": invalid syntax'
            parser.problems.append(f'{BAD_VALUE}"{values}" for "--version" flag: {text}')
            return
        version = git_version(getattr(namespace, "compatibility_version", OLDEST))
        sys.stdout.write(f"{version}\n" if values == "raw" else f"nodeagent-apiserver {version}+{BUILD}\n")
        raise SystemExit(0)


def _unknown(argument: str) -> str:
    name = argument.partition("=")[0]
    return f"unknown flag: {name}" if name.startswith("-") else f"unexpected argument: {argument}"


def _columns() -> int:
    """Return the width of the terminal; as ``shutil.get_terminal_size``, without the compression libraries."""
    try:
        return int(os.environ.get("COLUMNS", "0")) or os.get_terminal_size().columns
    except (OSError, ValueError):
        return 80
