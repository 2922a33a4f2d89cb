"""Command-line options, one module per group; parsing reports all errors together."""

from apiserver_stub.options.command_line import Options, check, parse, parse_identity, warnings
from apiserver_stub.options.parser import OptionsError

__all__ = ["Options", "OptionsError", "check", "parse", "parse_identity", "warnings"]
