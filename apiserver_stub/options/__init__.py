"""Command-line options, one module per group; parsing reports all errors together."""

from apiserver_stub.options.command_line import Options, check, parse, warnings
from apiserver_stub.options.parser import OptionsError

__all__ = ["Options", "OptionsError", "check", "parse", "warnings"]
