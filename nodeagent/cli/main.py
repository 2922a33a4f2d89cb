"""The command line: ``nodeagent [run] FLAGS`` is the daemon, every other word is a command of its own."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from nodeagent import __version__
from nodeagent.cli.exit_codes import ExitCode
from nodeagent.cli.printing import print_refusal
from nodeagent.errors import ConfigError, PluginError

COMMANDS = ("config", "plugins", "creds", "image", "status", "why", "doctor", "logs", "evict", "shutdown", "demo")


def main(argv: Sequence[str]) -> int:
    """Run the command that *argv* names and return its exit code."""
    try:
        if argv and argv[0] in COMMANDS:
            return _command(argv)
        if argv and argv[0] in ("help", "-h", "--help"):
            return _help()
        if argv and argv[0] != "run" and not argv[0].startswith("-"):
            return _unknown(argv[0])
        from nodeagent.cli import run

        return run.run(argv[1:] if argv and argv[0] == "run" else argv)
    except (ConfigError, PluginError) as error:
        print_refusal(error)
        return ExitCode.CONFIGURATION


def _command(argv: Sequence[str]) -> int:
    arguments = _parser().parse_args(argv)
    try:
        code = int(arguments.handler(arguments))
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever reads has gone, as `head` does: nothing is left to say, also not by the interpreter as it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK
    return code


def _help() -> int:
    """Print every command: the flags of the daemon alone are some two hundred lines, and hide the others."""
    parser = _parser()
    print(parser.format_help())
    print("Without a command the agent runs, as with `nodeagent run`; `nodeagent run --help` shows its flags.")
    return ExitCode.OK


def _unknown(word: str) -> int:
    from nodeagent.config.codec import nearest

    near = nearest(word, [*COMMANDS, "run"])
    hint = f"did you mean {near}?" if near else f"known are run, {', '.join(COMMANDS)}"
    print(f"nodeagent: {word!r} is not a command; {hint}", file=sys.stderr)
    return ExitCode.CONFIGURATION


def _parser() -> argparse.ArgumentParser:
    from nodeagent.cli import config, creds, demo, doctor, evict, image, logs, plugins, shutdown, status, why

    parser = argparse.ArgumentParser(prog="nodeagent", description="The agent that runs the workloads of a Linux node.")
    parser.add_argument("--version", action="version", version=f"nodeagent {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    config.add_parser(commands)
    plugins.add_parser(commands)
    creds.add_parser(commands)
    image.add_parser(commands)
    status.add_parser(commands)
    why.add_parser(commands)
    doctor.add_parser(commands)
    logs.add_parser(commands)
    evict.add_parser(commands)
    shutdown.add_parser(commands)
    demo.add_parser(commands)
    return parser
