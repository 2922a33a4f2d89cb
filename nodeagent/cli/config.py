"""``nodeagent config``: validate, explain and convert configuration, and print the effective one with its provenance.

Exit codes: 0 valid, 1 problems found, 2 usage error or unreadable file.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from nodeagent.base.release import ReleaseOrigin
from nodeagent.cli.exit_codes import ExitCode
from nodeagent.cli.printing import print_json, print_table
from nodeagent.cli.server_version import query_server_version
from nodeagent.config import names
from nodeagent.config.codec import encode, nearest
from nodeagent.config.convert import KINDS, convert
from nodeagent.config.credentials import decode_source, load_credential_providers
from nodeagent.config.fields import Field, all_fields
from nodeagent.config.files import UnreadableFile, read_layer
from nodeagent.config.flags import FlagParser, add_flags, field_flags, read_flags
from nodeagent.config.gate_usage import all_ineffective_settings, ineffective_settings, reason_without_effect
from nodeagent.config.host_checks import host_problems
from nodeagent.config.load import Loaded, load, load_configuration, load_file, masked
from nodeagent.config.release import last_release
from nodeagent.contracts.configuration import wire_name
from nodeagent.contracts.settings import NodeSettings
from nodeagent.errors import ConfigError, PluginError, Problem
from nodeagent.plugin_settings import load_plugins


def add_parser(subparsers: Any) -> None:
    """Add the command; each action sets ``handler``, a function from parsed arguments to exit code."""
    config = subparsers.add_parser("config", help="validate, print, explain and convert the configuration")
    actions = config.add_subparsers(required=True, metavar="ACTION", parser_class=FlagParser)

    check = actions.add_parser("validate", help="report every problem in a configuration file")
    check.add_argument("file", metavar="FILE")
    check.add_argument("--strict", action="store_true", help="report unknown fields and feature gates as errors")
    check.add_argument(
        "--compatibility-version", metavar="RELEASE", default="", help="release to validate for, such as 1.36"
    )
    check.add_argument(
        "--other-host", action="store_true", help="do not check whether objects in the file exist on this host"
    )
    check.add_argument(
        "--plugin-config", metavar="FILE", default="", help="also validate this file with plugin settings"
    )
    check.add_argument(
        "--disable-plugin", metavar="NAME", action="append", default=[], help="plugin that the agent does not load"
    )
    _add_output(check, "text", "json")
    check.set_defaults(handler=_guarded(_validate))

    effective = actions.add_parser("effective", help="print the configuration that results from flags")
    effective.add_argument("--provenance", action="store_true", help="print the origin of each value")
    effective.add_argument(
        "--unimplemented",
        action="store_true",
        help="list accepted settings without effect, with --config those of the file",
    )
    _add_output(effective, "yaml", "json")
    add_flags(effective)
    effective.set_defaults(handler=_guarded(_effective))

    explain = actions.add_parser("explain", help="print type, default, rule and effect of a field")
    explain.add_argument("field", metavar="FIELD", help="such as maxPods or logging.format")
    _add_output(explain, "text", "json")
    explain.set_defaults(handler=_guarded(_explain))

    rewrite = actions.add_parser("convert", help="print a configuration file in its native form")
    rewrite.add_argument("file", metavar="FILE")
    _add_output(rewrite, "yaml", "json")
    rewrite.set_defaults(handler=_guarded(_convert))


def _add_output(parser: argparse.ArgumentParser, *formats: str) -> None:
    parser.add_argument("-o", "--output", choices=formats, default=formats[0])


def _guarded(action: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """Return *action* as a handler that prints validation errors and returns an exit code for them."""

    def handler(arguments: argparse.Namespace) -> int:
        try:
            return action(arguments)
        except ConfigError as error:
            _print_problems(error, arguments.output)
            return ExitCode.CONFIGURATION if isinstance(error, UnreadableFile) else ExitCode.PROBLEMS

    return handler


def _validate(arguments: argparse.Namespace) -> int:
    errors: list[ConfigError] = []
    kind, warnings = "", list[str]()
    try:
        kind, warnings = _check_file(arguments)
    except ConfigError as error:
        errors.append(error)
    if arguments.plugin_config:
        try:
            load_plugins(arguments.plugin_config, arguments.disable_plugin)
        except ConfigError as error:
            errors.append(error)
        except PluginError as error:
            errors.append(ConfigError([Problem(arguments.plugin_config, "", None, str(error))]))
    if errors:
        unreadable = any(isinstance(error, UnreadableFile) for error in errors)
        raise (UnreadableFile if unreadable else ConfigError)([each for error in errors for each in error.problems])
    if arguments.output == "json":
        print_json({"file": arguments.file, "kind": kind, "problems": [], "warnings": warnings})
        return ExitCode.OK
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    print(f"{arguments.file}: valid {kind}")
    return ExitCode.OK


def _check_file(arguments: argparse.Namespace) -> tuple[str, list[str]]:
    """Return the kind of the file and the warnings for it.

    :raises ConfigError: the file is invalid; contains all errors.
    """
    kind = read_layer(arguments.file, KINDS).kind
    if kind == names.CREDENTIAL_KIND:
        return kind, list(load_credential_providers(arguments.file).warnings)
    if kind == names.SOURCE_KIND:
        decode_source(arguments.file)
        return kind, []
    loaded = _load_file(arguments.file, arguments.compatibility_version)
    problems = list(loaded.tolerated) if arguments.strict else []
    if not arguments.other_host:
        problems += host_problems(loaded.config, loaded.gates, arguments.file)
    if problems:
        raise ConfigError(problems)
    return kind, [*loaded.warnings, *_idle(loaded)]


def _effective(arguments: argparse.Namespace) -> int:
    flags = read_flags(arguments)
    if arguments.unimplemented and not (flags.settings.config or flags.settings.config_dir):
        return _print_ineffective(all_ineffective_settings(), arguments.output)
    loaded = load(flags, query_server_version)
    if arguments.unimplemented:
        return _print_ineffective(ineffective_settings(loaded.gates), arguments.output)
    for warning in [*loaded.warnings, *_idle(loaded)]:
        print(f"warning: {warning}", file=sys.stderr)
    plain = {"apiVersion": names.native_version(), "kind": names.NATIVE_KIND, **masked(loaded.config)}
    if not arguments.provenance:
        _print(plain, arguments.output)
    elif arguments.output == "json":
        origins = {path: loaded.provenance.describe(path) for path in _leaves(plain)}
        print_json({"configuration": plain, "provenance": origins, "release": _release(loaded)})
    else:
        rows = [(path, loaded.provenance.describe(path), json.dumps(value)) for path, value in _leaves(plain).items()]
        print_table([*rows, _release_row(loaded)])
    return ExitCode.OK


def _print_ineffective(paths: Sequence[str], output: str) -> int:
    reasons = {path: reason_without_effect(path.removeprefix("featureGates.")) for path in paths}
    if output == "json":
        print_json(reasons)
    else:
        print_table([[path, reason] for path, reason in reasons.items()])
    return ExitCode.OK


def _explain(arguments: argparse.Namespace) -> int:
    fields = all_fields()
    path = names.KUBELET_FIELDS.get(arguments.field, arguments.field)
    field = fields.get(path) or fields.get(".".join(map(_from_flag, path.split("."))))
    if field is None:
        near = nearest(path, fields)
        hint = f"; did you mean {near}?" if near else ""
        print(f"unknown field {arguments.field}{hint}", file=sys.stderr)
        return ExitCode.CONFIGURATION
    described = describe(field)
    if arguments.output == "json":
        print_json(described)
        return ExitCode.OK
    for name, value in described.items():
        print(f"{name + ':':<9} {value if isinstance(value, str) else json.dumps(value)}")
    return ExitCode.OK


def _from_flag(name: str) -> str:
    """Return the field name for ``max-pods`` or ``max_pods``."""
    return wire_name(name.lstrip("-").replace("-", "_"))


def describe(field: Field) -> dict[str, Any]:
    """Return the description of one field, for display and for the generated documentation."""
    top = field.path.partition(".")[0].partition("[")[0]
    flags = [f"--{flag.name}" for flag in field_flags().values() if flag.path == field.path]
    return {
        "field": field.path,
        "type": field.member.shape.name,
        "default": encode(field.default),
        "rule": field.member.doc,
        "row": field.member.row,
        "flags": flags,
        "effect": "none, deprecated" if top.startswith("iptables") else "yes",
    }


def _convert(arguments: argparse.Namespace) -> int:
    _print(convert(arguments.file), arguments.output)
    return ExitCode.OK


def _load_file(path: str, release: str) -> Loaded:
    """Load a file for *release*, or for the release of the agent on this host."""
    if release:
        return load_configuration([f"--config={path}", f"--compatibility-version={release}"])
    return load_file(path, last_release(NodeSettings().root_dir, ReleaseOrigin.STANDALONE))


def _release(loaded: Loaded) -> dict[str, str]:
    selected = loaded.release
    return {"release": str(selected.release), "origin": selected.origin.value, "version": selected.node_version}


def _release_row(loaded: Loaded) -> tuple[str, str, str]:
    return "compatibility-version", loaded.release.origin.value, str(loaded.release.release)


def _idle(loaded: Loaded) -> list[str]:
    idle = ineffective_settings(loaded.gates)
    return [f"no effect yet: {', '.join(idle)}"] if idle else []


def _leaves(value: Any, path: str = "") -> dict[str, Any]:
    """Return the values by field path; a list, or a map with arbitrary keys, is one value."""
    fields = all_fields()
    result: dict[str, Any] = {}
    for key, inner in value.items():
        field_path = f"{path}.{key}" if path else key
        if field_path not in fields:
            continue
        if isinstance(inner, dict) and any(other.startswith(f"{field_path}.") for other in fields):
            result |= _leaves(inner, field_path)
        else:
            result[field_path] = inner
    return result


def _print_problems(error: ConfigError, output: str) -> None:
    if output == "json":
        print_json(
            {
                "problems": [
                    {"source": item.source, "path": item.path, "value": item.value, "rule": item.rule}
                    for item in error.problems
                ]
            }
        )
        return
    for problem in error.problems:
        print(problem, file=sys.stderr)
    count = len(error.problems)
    print(f"{count} problem{'' if count == 1 else 's'}", file=sys.stderr)


def _print(plain: Any, output: str) -> None:
    if output == "json":
        print_json(plain)
        return
    import yaml

    yaml.safe_dump(plain, sys.stdout, sort_keys=False, allow_unicode=True)
