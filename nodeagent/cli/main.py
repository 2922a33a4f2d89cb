"""Command dispatch: ``nodeagent [run] FLAGS`` starts the daemon, ``nodeagent COMMAND`` any other command."""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Sequence

from nodeagent import __version__
from nodeagent.cli.exit_codes import ExitCode
from nodeagent.cli.printing import print_startup_error, print_table
from nodeagent.errors import ConfigError, PluginError

COMMANDS = (
    "config",
    "plugins",
    "creds",
    "image",
    "status",
    "why",
    "doctor",
    "logs",
    "evict",
    "shutdown",
    "volumes",
    "devices",
    "demo",
    "simulate",
)


def main(argv: Sequence[str]) -> int:
    """Run the command in *argv* and return its exit code."""
    try:
        if argv and argv[0] in COMMANDS:
            return _quietly_piped(lambda: _command(argv))
        if argv and argv[0] in ("help", "-h", "--help"):
            return _quietly_piped(_help)
        if argv and argv[0] != "run" and not argv[0].startswith("-"):
            return _command_of_plugin(argv)
        return _daemon(argv[1:] if argv and argv[0] == "run" else argv)
    except (ConfigError, PluginError) as error:
        print_startup_error(error)
        return ExitCode.CONFIGURATION


def _daemon(argv: Sequence[str]) -> int:
    gc.disable()  # The start mostly imports modules, which leaves little garbage; ``run`` enables it.
    try:
        from nodeagent.cli import run

        return run.run(argv)
    finally:
        gc.enable()


def _command(argv: Sequence[str]) -> int:
    arguments = _parser(argv[:1]).parse_args(argv)
    return int(arguments.handler(arguments))


def _quietly_piped(command: Callable[[], int]) -> int:
    """Run a command whose reader may exit before its output ends."""
    try:
        code = command()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader exited early, as `head` does. The interpreter flushes standard output at exit, which must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK
    return code


def _help() -> int:
    """Print all commands, without the approximately 200 flags of the daemon."""
    from nodeagent.cli import plugin_commands

    parser = _parser(COMMANDS)
    print(parser.format_help())
    if commands := plugin_commands.plugin_commands():
        print("commands of plugins:")
        print_table((f"  {name}", plugin_commands.describe(entry)) for name, entry in sorted(commands.items()))
        print()
    print("Without a command, the agent is started as with `nodeagent run`; `nodeagent run --help` lists its flags.")
    return ExitCode.OK


def _command_of_plugin(argv: Sequence[str]) -> int:
    from nodeagent.cli import plugin_commands

    commands = plugin_commands.plugin_commands()
    if (entry := commands.get(argv[0])) is not None:
        return _quietly_piped(lambda: plugin_commands.run(entry, argv[1:]))
    return _unknown(argv[0], commands)


def _unknown(name: str, installed: Iterable[str]) -> int:
    from nodeagent.config.codec import nearest

    near = nearest(name, [*COMMANDS, "run", *installed])
    hint = f"did you mean {near}?" if near else f"commands are run, {', '.join(COMMANDS)}"
    print(f"nodeagent: unknown command {name!r}; {hint}", file=sys.stderr)
    return ExitCode.CONFIGURATION


def _parser(names: Iterable[str]) -> argparse.ArgumentParser:
    """Return a parser of the commands *names*; the module of a command has its name."""
    parser = argparse.ArgumentParser(prog="nodeagent", description="Node agent: runs the pods of a Linux node.")
    parser.add_argument("--version", action="version", version=f"nodeagent {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in names:
        importlib.import_module(f"nodeagent.cli.{name}").add_parser(commands)
    return parser
