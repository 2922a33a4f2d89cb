"""argparse, with every complaint collected instead of the first one fatal."""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, NoReturn

from apiserver_stub.options.declare import BAD_VALUE, Group
from apiserver_stub.options.flag_aliases import respelled

_VERSION_HELP = "Print the version and exit; =raw prints it alone, =vX.Y.Z-TEXT sets the one that is reported."


_EPILOG = (
    "No option is needed: certificates and an administrator's kubeconfig are made at the first start, and what to type "
    "next is printed. DURATION is a number with its unit, such as 90s, 5m or 1h30m; an option of true or false given "
    "alone is true."
)
_WIDTH, _NAMES_WIDTH = 100, 30


class OptionsError(Exception):
    """The command line is wrong; :attr:`problems` holds a message each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)


class Parser:
    """The command line; complaints go into *problems*."""

    def __init__(self, problems: list[str], *, exits: bool = True) -> None:
        """Ignore ``--help`` and ``--version`` unless *exits*."""
        self._problems = problems
        self._parser = _Collecting(
            prog="nodeagent-apiserver",
            usage="nodeagent-apiserver [--OPTION=VALUE ...]",
            description="A light API server for one node or a few: durable, and the same on the wire.",
            epilog=_EPILOG,
            formatter_class=_Wide,
            allow_abbrev=False,
            add_help=exits,
            argument_default=argparse.SUPPRESS,
        )
        self._parser.problems = problems
        if exits:
            self._parser.add_argument("--version", nargs="?", action=_Version, metavar="raw", help=_VERSION_HELP)

    def group(self, title: str) -> Group:
        return Group(self._parser.add_argument_group(title))

    def parse(self, arguments: Sequence[str]) -> dict[str, Any]:
        """Return the values that were given, by field."""
        found, rest = self._parser.parse_known_args(respelled(arguments))
        self._problems += [_unknown(argument) for argument in rest]
        return vars(found)


class _Collecting(argparse.ArgumentParser):
    problems: list[str]

    def error(self, message: str) -> NoReturn:
        _, _, rest = message.partition(": ")  # before it the option, which complaints about values name themselves
        raise OptionsError([*self.problems, rest if rest.startswith(BAD_VALUE) else message])


class _Wide(argparse.HelpFormatter):
    """As wide as is good to read, whatever the terminal, and without breaks inside words with a dash."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=_NAMES_WIDTH, width=min(_WIDTH, shutil.get_terminal_size().columns))

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False, break_long_words=False)


class _Version(argparse.Action):
    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        from apiserver_stub.apimachinery.version import GIT_VERSION

        if values is not None and values.startswith("v"):
            if values.partition("-")[0].partition("+")[0] == GIT_VERSION:
                namespace.reported_version = values
            else:
                text = f'version "{values}" must match major/minor/patch of default version "{GIT_VERSION}"'
                parser.problems.append(f'{BAD_VALUE}"{values}" for "--version" flag: {text}')
            return
        if values == "false":
            return
        if values not in (None, "true", "raw"):
            text = f'strconv.ParseBool: parsing "{values}": invalid syntax'
            parser.problems.append(f'{BAD_VALUE}"{values}" for "--version" flag: {text}')
            return
        sys.stdout.write(f"{GIT_VERSION}\n" if values == "raw" else f"nodeagent-apiserver {GIT_VERSION}\n")
        raise SystemExit(0)


def _unknown(argument: str) -> str:
    name = argument.partition("=")[0]
    return f"unknown flag: {name}" if name.startswith("-") else f"unexpected argument: {argument}"
