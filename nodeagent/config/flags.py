"""The command line of the daemon: flags that are settings of their own, and one flag a configuration field.

Flags read as the field's operators write them: underscores are dashes, a boolean needs no value and never takes the
next word, lists and maps are comma-separated and may be given several times. A flag wins over the files.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from nodeagent import __version__
from nodeagent.config import flagvalues
from nodeagent.config.codec import nearest
from nodeagent.config.fields import all_fields
from nodeagent.config.nodeflags import IDENTITY_FLAGS, NODE_FLAGS, REFUSED_FLAGS, read_settings
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
    "memorySwap.swapBehavior": ("memory-swap-behavior",),
    "tracing.endpoint": ("tracing-endpoint",),
    "tracing.samplingRatePerMillion": ("tracing-sampling-rate-per-million",),
}
"""Fields whose flag is not the field's name with dashes, the first name being ours."""

_STRUCTURED = frozenset({"shutdownGracePeriodByPodPriority"})
"""Fields that only a file can set."""

_LASTING = frozenset({"v", "vmodule", "log-flush-frequency", "provider-id"})
"""Flags of fields that are not deprecated."""


@dataclass(frozen=True, slots=True)
class FieldFlag:
    """A flag that sets a field of the configuration."""

    name: str
    path: str
    boolean: bool
    read: Callable[[Sequence[str]], Any]
    """Turns the texts given into the plain value that a file would hold.

    :raises ValueError: a text is not what the field takes; the message is a sentence part.
    """
    doc: str


@dataclass(slots=True)
class Flags:
    """What a command line says."""

    settings: NodeSettings
    overrides: list[tuple[str, Any, str]] = field(default_factory=list)
    """Field path, plain value and flag, in the order of the fields."""
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class FlagParser(argparse.ArgumentParser):
    """An argument parser that reads flags the way operators of node agents write them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        return super().parse_known_args(None if args is None else normalize(args), namespace)


def normalize(arguments: Sequence[str]) -> list[str]:
    """Return the command line with dashes for underscores in flag names and an explicit value for every boolean."""
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
    for name in REFUSED_FLAGS:
        parser.add_argument(f"--{name}", action="append", dest=_dest(name), nargs="?", help=argparse.SUPPRESS)


def parse(arguments: Sequence[str]) -> Flags:
    """Read a command line; also what is no flag at all stands in ``problems``.

    :raises SystemExit: help or the version was asked for and printed.
    """
    parser = FlagParser(prog="nodeagent", description="Run the node agent.")
    add_flags(parser)
    parser.add_argument("--version", action=_Version, nargs="?", help="print the version and exit")
    namespace, rest = parser.parse_known_args(arguments)
    flags = read_flags(namespace)
    known = [*field_flags(), *(flag.name for flag in (*NODE_FLAGS, *IDENTITY_FLAGS))]
    for word in rest:
        name = word.partition("=")[0]
        near = nearest(name.lstrip("-"), known) if name.startswith("-") else ""
        rule = "is not a known flag" if name.startswith("-") else "is not expected here"
        flags.problems.append(Problem("command line", "", name, rule + (f"; did you mean --{near}?" if near else "")))
    return flags


class _Version(argparse.Action):
    """``--version`` prints one line for people, ``--version=raw`` the bare number."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option_string: Any = None) -> None:
        del namespace, option_string
        print(__version__ if values == "raw" else f"{parser.prog} {__version__}")
        parser.exit()


def read_flags(namespace: argparse.Namespace) -> Flags:
    """Turn parsed arguments into settings and overrides; whatever is wrong stands in ``problems``."""
    given = {key[5:]: texts for key, texts in vars(namespace).items() if key.startswith("flag:") and texts is not None}
    problems = [Problem(f"--{name}", "", None, reason) for name, reason in REFUSED_FLAGS.items() if name in given]
    flags = Flags(read_settings(given, problems), problems=problems)
    deprecated = []
    for flag in field_flags().values():
        if flag.name not in given:
            continue
        try:
            value = flag.read(given[flag.name])
        except ValueError as error:
            shown = None if flag.path == "staticPodURLHeader" else given[flag.name][-1]
            problems.append(Problem(f"--{flag.name}", "", shown, str(error)))
            continue
        if flag.path == "seccompDefault" and value is False:
            continue  # the flag can only switch on what the file leaves off
        flags.overrides.append((flag.path, value, f"--{flag.name}"))
        if flag.name not in _LASTING:
            deprecated.append(f"--{flag.name} ({flag.path})")
    if deprecated:
        flags.warnings.append(f"deprecated flags, set the field in the configuration file: {', '.join(deprecated)}")
    return flags


def field_flags() -> dict[str, FieldFlag]:
    """Return every flag that sets a field, by name."""
    flags = {}
    for path, described in all_fields().items():
        nested = "." in path
        if path in _STRUCTURED or (nested and path not in _SPECIAL):
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
