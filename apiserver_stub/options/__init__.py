"""The options of document 2: a module a group, each declared once; all problems are reported together."""

from apiserver_stub.options.command_line import Options, check, parse, parse_identity, warnings
from apiserver_stub.options.parser import OptionsError

__all__ = ["Options", "OptionsError", "check", "parse", "parse_identity", "warnings"]
