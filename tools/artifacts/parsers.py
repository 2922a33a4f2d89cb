"""Command-line parsers of the executables, for man pages and shell completion."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Option:
    """Option or positional argument of a command."""

    names: tuple[str, ...]
    metavar: str
    help: str
    choices: tuple[str, ...]
    takes_value: bool
    is_file: bool


@dataclass(frozen=True)
class Command:
    """Executable or subcommand."""

    words: tuple[str, ...]
    help: str
    description: str
    options: tuple[Option, ...]
    arguments: tuple[Option, ...]
    subcommands: tuple[Command, ...]

    def all(self) -> Iterator[Command]:
        """Yield the command and its subcommands at all levels."""
        yield self
        for each in self.subcommands:
            yield from each.all()


def executables() -> dict[str, Command]:
    """Return the commands of all executables by name."""
    from apiserver_stub.options.command_line import build_parser
    from nodeagent.cli.main import COMMANDS, _parser
    from nodeagent.config.flags import FlagParser, add_flags
    from nodeagent_plugins.embedded_runtime.__main__ import build_parser as runtime_parser

    run = FlagParser(prog="nodeagent run", description="Run the node agent.")
    add_flags(run)
    agent = _read(_parser(COMMANDS), ("nodeagent",), "run the pods of a Linux node")
    agent = Command(
        agent.words,
        agent.help,
        agent.description,
        agent.options,
        (),
        (_read(run, ("nodeagent", "run"), "run the node agent"), *agent.subcommands),
    )
    kubelet = FlagParser(prog="kubelet", description="Run the node agent under the name of the kubelet.")
    add_flags(kubelet)
    return {
        "nodeagent": agent,
        "nodeagent-apiserver": _read(build_parser(), ("nodeagent-apiserver",), "lightweight Kubernetes API server"),
        "nodeagent-runtime": _read(runtime_parser(), ("nodeagent-runtime",), "embedded container runtime"),
        "kubelet": _read(kubelet, ("kubelet",), "node agent of Kubernetes"),
    }


def _read(parser: argparse.ArgumentParser, words: tuple[str, ...], text: str) -> Command:
    options, arguments, subcommands = list[Option](), list[Option](), list[Command]()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {each.dest: each.help or "" for each in action._choices_actions}
            for name, sub in action.choices.items():
                subcommands.append(_read(sub, (*words, name), helps.get(name, "")))
        elif action.help != argparse.SUPPRESS:
            (options if action.option_strings else arguments).append(_option(parser, action))
    return Command(words, text, parser.description or "", tuple(options), tuple(arguments), tuple(subcommands))


def _option(parser: argparse.ArgumentParser, action: argparse.Action) -> Option:
    takes_value = action.nargs != 0
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    text = (action.help or "") % {**vars(action), "prog": parser.prog} if action.help else ""
    names = tuple(action.option_strings)
    is_file = bool({"FILE", "DIR", "PATH", "ARCHIVE"} & {metavar}) or any(
        name.endswith(("-file", "-dir", "kubeconfig", "-config", "--config")) for name in names
    )
    choices = tuple(str(each) for each in action.choices or ())
    return Option(names, "" if not takes_value else metavar, text, choices, takes_value, is_file)
