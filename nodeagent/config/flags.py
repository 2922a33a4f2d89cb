"""Command line of the daemon: node flags, and one flag per configuration field.

Flags follow kubelet conventions: underscores are dashes, a boolean needs no value and never consumes the
next argument, lists and maps are comma-separated and may be repeated. A flag takes precedence over the files.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import field

from nodeagent import __version__
from nodeagent.base.structs import MutableStruct, Struct
from nodeagent.config import flagvalues
from nodeagent.config.codec import nearest
from nodeagent.config.fields import all_fields
from nodeagent.config.nodeflags import IDENTITY_FLAGS, NODE_FLAGS, UNSUPPORTED_FLAGS, read_settings
from nodeagent.contracts.settings import NodeSettings
from nodeagent.errors import Problem

_SPECIAL: dict[str, tuple[str, ...]] = {
    "staticPodPath": ("pod-manifest-path",),
    "staticPodURL": ("manifest-url",),
    "staticPodURLHeader": ("manifest-url-header",),
    "authentication.anonymous.enabled": ("anonymous-auth",),
    "authentication.webhook.enabled": ("authentication-token-webhook",),
    "authentication.webhook.cacheTTL": ("authentication-token-webhook-cache-ttl",),
    "authentication.x509.clientCAFile": ("client-ca-file",),
    "authorization.mode": ("authorization-mode",),
    "authorization.webhook.cacheAuthorizedTTL": ("authorization-webhook-cache-authorized-ttl",),
    "authorization.webhook.cacheUnauthorizedTTL": ("authorization-webhook-cache-unauthorized-ttl",),
    "serverTLSBootstrap": ("rotate-server-certificates",),
    "registryPullQPS": ("registry-qps",),
    "eventRecordQPS": ("event-qps",),
    "enableContentionProfiling": ("contention-profiling",),
    "imageMinimumGCAge": ("minimum-image-ttl-duration",),
    "imageGCHighThresholdPercent": ("image-gc-high-threshold",),
    "imageGCLowThresholdPercent": ("image-gc-low-threshold",),
    "podPidsLimit": ("pod-max-pids",),
    "reservedSystemCPUs": ("reserved-cpus",),
    "contentType": ("platform-api-content-type", "kube-api-content-type"),
    "runOnce": ("runonce",),
    "nodeagentCgroups": ("nodeagent-cgroups", "kubelet-cgroups"),
    "platformReserved": ("platform-reserved", "kube-reserved"),
    "platformReservedCgroup": ("platform-reserved-cgroup", "kube-reserved-cgroup"),
    "platformAPIQPS": ("platform-api-qps", "kube-api-qps"),
    "platformAPIBurst": ("platform-api-burst", "kube-api-burst"),
    "logging.format": ("logging-format",),
    "logging.flushFrequency": ("log-flush-frequency",),
    "logging.verbosity": ("v",),
    "logging.vmodule": ("vmodule",),
    "logging.options.json.splitStream": ("log-json-split-stream",),
    "logging.options.json.infoBufferSize": ("log-json-info-buffer-size",),
    "logging.options.text.splitStream": ("log-text-split-stream",),
    "logging.options.text.infoBufferSize": ("log-text-info-buffer-size",),
    "failCgroupV1": ("fail-cgroupv1",),
    "memorySwap.swapBehavior": ("memory-swap-behavior",),
    "tracing.endpoint": ("tracing-endpoint",),
    "tracing.samplingRatePerMillion": ("tracing-sampling-rate-per-million",),
}
"""Fields whose flag is not the name of the field with dashes; the first name is the native one."""

_STRUCTURED = frozenset({"shutdownGracePeriodByPodPriority"})
"""Fields without a flag."""

_LASTING = frozenset({"v", "vmodule", "log-flush-frequency", "provider-id"})
"""Flags of fields that are not deprecated."""


class FieldFlag(Struct, frozen=True):
    """Flag that sets a field of the configuration."""

    name: str
    path: str
    boolean: bool
    read: Callable[[Sequence[str]], Any]
    """Convert the arguments to the plain value of a file.

    :raises ValueError: an argument is invalid; the message is a predicate.
    """
    doc: str


class Flags(MutableStruct):
    """Parsed command line."""

    settings: NodeSettings
    overrides: list[tuple[str, Any, str]] = field(default_factory=list)
    """Field path, plain value and flag, in the order of the fields."""
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class FlagParser(argparse.ArgumentParser):
    """Argument parser that follows kubelet conventions."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        return super().parse_known_args(None if args is None else normalize(args), namespace)


def normalize(arguments: Sequence[str]) -> list[str]:
    """Return the command line with dashes instead of underscores in flag names and explicit values of booleans."""
    booleans = _booleans()
    result: list[str] = []
    for position, argument in enumerate(arguments):
        if argument == "--":
            return [*result, *arguments[position:]]
        if argument.startswith("--"):
            name, equals, value = argument[2:].partition("=")
            name = name.replace("_", "-")
            argument = f"--{name}={value}" if equals else f"--{name}=true" if name in booleans else f"--{name}"  # noqa: PLW2901
        result.append(argument)
    return result


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Define every flag of the daemon on *parser*, which should be a :class:`FlagParser`."""
    settings = parser.add_argument_group("node")
    for node_flag in (*NODE_FLAGS, *IDENTITY_FLAGS):
        _add(settings, node_flag.name, node_flag.doc)
    logging = parser.add_argument_group("logging")
    deprecated = parser.add_argument_group("configuration fields", "deprecated: set the field in the file")
    for flag in field_flags().values():
        _add(logging if flag.name in _LASTING else deprecated, flag.name, f"{flag.path}: {flag.doc}")
    for name in UNSUPPORTED_FLAGS:
        parser.add_argument(f"--{name}", action="append", dest=_dest(name), nargs="?", help=argparse.SUPPRESS)


def parse(arguments: Sequence[str]) -> Flags:
    """Parse a command line; unexpected arguments are added to ``problems``.

    :raises SystemExit: help or the version was requested and printed.
    """
    namespace, rest = _parser().parse_known_args(arguments)
    flags = read_flags(namespace)
    known = [*field_flags(), *(flag.name for flag in (*NODE_FLAGS, *IDENTITY_FLAGS))]
    for argument in rest:
        name = argument.partition("=")[0]
        near = nearest(name.lstrip("-"), known) if name.startswith("-") else ""
        rule = "is not a known flag" if name.startswith("-") else "is an unexpected argument"
        flags.problems.append(Problem("command line", "", name, rule + (f"; did you mean --{near}?" if near else "")))
    return flags


def _parser() -> FlagParser:
    parser = FlagParser(prog="nodeagent", description="Run the node agent.")
    add_flags(parser)
    parser.add_argument("--version", action=_Version, nargs="?", help="print the version and exit")
    return parser


class _Version(argparse.Action):
    """Action that prints name and version for ``--version``, and only the version for ``--version=raw``."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option_string: Any = None) -> None:
        del namespace, option_string
        print(__version__ if values == "raw" else f"{parser.prog} {__version__}")
        parser.exit()


def read_flags(namespace: argparse.Namespace) -> Flags:
    """Convert parsed arguments to settings and overrides; errors are added to ``problems``."""
    specified = {
        key[5:]: texts for key, texts in vars(namespace).items() if key.startswith("flag:") and texts is not None
    }
    problems: list[Problem] = []
    flags = Flags(read_settings(specified, problems), problems=problems)
    flags.warnings += [f"--{name} {reason}" for name, reason in UNSUPPORTED_FLAGS.items() if name in specified]
    deprecated = []
    for flag in field_flags().values():
        if flag.name not in specified:
            continue
        try:
            value = flag.read(specified[flag.name])
        except ValueError as error:
            shown = None if flag.path == "staticPodURLHeader" else specified[flag.name][-1]
            problems.append(Problem(f"--{flag.name}", "", shown, str(error)))
            continue
        if flag.path == "seccompDefault" and value is False:
            continue  # The flag can only enable it.
        flags.overrides.append((flag.path, value, f"--{flag.name}"))
        if flag.name not in _LASTING:
            deprecated.append(f"--{flag.name} ({flag.path})")
    if deprecated:
        flags.warnings.append(f"deprecated flags, set the field in the configuration file: {', '.join(deprecated)}")
    return flags


@functools.cache
def field_flags() -> Mapping[str, FieldFlag]:
    """Return every flag that sets a field, by name."""
    flags = {}
    for path, described in all_fields().items():
        nested = "." in path
        if path in _STRUCTURED or ((nested or described.member.since) and path not in _SPECIAL):
            continue
        read = flagvalues.reader(path, described.member.shape)
        if read is None:
            continue
        for name in _SPECIAL.get(path) or (described.attributes[0].replace("_", "-"),):
            boolean = described.member.shape.kind is bool
            flags[name] = FieldFlag(name, path, boolean, read, described.member.doc)
    return flags


def _booleans() -> frozenset[str]:
    names = {flag.name for flag in field_flags().values() if flag.boolean}
    return frozenset(names | {flag.name for flag in NODE_FLAGS if flag.boolean})


def _add(group: Any, name: str, text: str) -> None:
    names = ["-v", "--v"] if name == "v" else [f"--{name}"]
    group.add_argument(*names, action="append", dest=_dest(name), metavar="VALUE", help=text.replace("%", "%%"))


def _dest(name: str) -> str:
    return f"flag:{name}"
