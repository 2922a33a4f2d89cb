"""The command line: every option that works is declared here once; all problems are reported together."""

from __future__ import annotations

import argparse
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from apiserver_stub import enablement, gates
from apiserver_stub.enablement import parse_runtime_config
from apiserver_stub.gates import build_gates
from apiserver_stub.options_pending import PENDING
from nodeagent.base.duration import parse_duration
from nodeagent.base.gates import FeatureGates
from nodeagent.base.logging import MAX_VERBOSITY
from nodeagent.base.tls import TlsError, insecure, is_ip, openssl_ciphers, parse_min_version

AUTHORIZATION_MODES = ("AlwaysAllow", "AlwaysDeny", "Builtin")
_DEFAULT_DATA_DIR = Path("/var/lib/nodeagent-apiserver")


class OptionsError(Exception):
    """The command line is wrong; :attr:`problems` holds a message each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)


@dataclass(frozen=True)
class Options:
    """The options that work, typed."""

    data_dir: Path = _DEFAULT_DATA_DIR
    node_name: str = field(default_factory=lambda: socket.gethostname().lower())
    bind_pods_to_single_node: bool = True
    bind_address: str = "127.0.0.1"
    """Not ``0.0.0.0`` as document 2 has it: what is started without options is for this machine alone."""
    advertise_address: str = ""
    secure_port: int = 6443
    """0 takes a free port."""
    external_hostname: str = ""
    permit_address_sharing: bool = False
    permit_port_sharing: bool = False
    tls_cert_file: Path | None = None
    tls_private_key_file: Path | None = None
    cert_dir: Path | None = None
    """``None`` means ``certs`` in the data directory."""
    tls_min_version: str = ""
    tls_cipher_suites: tuple[str, ...] = ()
    anonymous_auth: bool = True
    client_ca_file: Path | None = None
    token_auth_file: Path | None = None
    service_account_issuer: str = "https://kubernetes.default.svc"
    service_account_jwks_uri: str = ""
    """Where the issuer document says that the keys are; empty means at this server."""
    authorization_mode: tuple[str, ...] = ("Builtin",)
    event_ttl_seconds: int = 3600
    max_requests_inflight: int = 400
    max_mutating_requests_inflight: int = 200
    request_timeout_seconds: float = 60.0
    min_request_timeout_seconds: int = 1800
    profiling: bool = True
    enable_garbage_collector: bool = True
    livez_grace_seconds: float = 0.0
    shutdown_delay_seconds: float = 0.0
    shutdown_send_retry_after: bool = False
    shutdown_watch_grace_seconds: float = 0.0
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    runtime_config: Mapping[str, str] = field(default_factory=dict)
    verbosity: int = 0
    vmodule: str = ""
    log_flush_frequency_seconds: float = 5.0

    @cached_property
    def gates(self) -> FeatureGates:
        """The state of every feature gate.

        :raises GateError: the settings make no sense; :func:`parse` has refused them.
        """
        return build_gates(self.feature_gates)

    @property
    def certificates(self) -> Path:
        return self.cert_dir or self.data_dir / "certs"


def parse(arguments: Sequence[str]) -> Options:
    """Return the options of a command line.

    :raises OptionsError: an unknown option, a bad value, a forbidden combination; all of them together.
    """
    problems: list[str] = []
    parser = _Parser(problems)
    found, rest = parser.parser.parse_known_args(list(arguments))
    for argument in rest:
        problems.append(_unknown(argument))
    values = {item.name: getattr(found, item.name) for item in fields(Options) if hasattr(found, item.name)}
    options = Options(**values)
    problems += check(options)
    if problems:
        raise OptionsError(problems)
    return options


def check(options: Options) -> list[str]:
    """Return what is wrong with the combination of options."""
    problems = []
    if not 0 <= options.secure_port <= 65535:
        problems.append(
            f"--secure-port {options.secure_port} must be between 1 and 65535, inclusive (0 takes a free port)"
        )
    if (options.tls_cert_file is None) != (options.tls_private_key_file is None):
        problems.append("missing filename for serving cert: --tls-cert-file and --tls-private-key-file go together")
    for name in options.authorization_mode:
        if name not in AUTHORIZATION_MODES:
            known = ", ".join(AUTHORIZATION_MODES)
            problems.append(f'--authorization-mode "{name}" is not one of those that work here: {known}')
    if len(set(options.authorization_mode)) != len(options.authorization_mode):
        problems.append("--authorization-mode names a mode twice")
    try:
        parse_min_version(options.tls_min_version)
        openssl_ciphers(options.tls_cipher_suites)
    except TlsError as error:
        problems.append(str(error))
    if options.max_requests_inflight < 0 or options.max_mutating_requests_inflight < 0:
        problems.append("--max-requests-inflight and --max-mutating-requests-inflight can not be negative value")
    if options.request_timeout_seconds < 0:
        problems.append("--request-timeout can not be negative value")
    if options.min_request_timeout_seconds < 0:
        problems.append("--min-request-timeout can not be negative value")
    for name, value in (
        ("livez-grace-period", options.livez_grace_seconds),
        ("shutdown-delay-duration", options.shutdown_delay_seconds),
        ("shutdown-watch-termination-grace-period", options.shutdown_watch_grace_seconds),
    ):
        if value < 0:
            problems.append(f"--{name} can not be negative value")
    problems += gates.complaints(options.feature_gates)
    problems += enablement.complaints(options.runtime_config)
    if (uri := options.service_account_jwks_uri) and urlsplit(uri).scheme != "https":
        problems.append(f"service-account-jwks-uri requires https scheme, parsed as: {uri}")
    if not options.service_account_issuer:
        problems.append("service-account-issuer should not be an empty string")
    return problems


def warnings(options: Options) -> list[str]:
    """Return what is accepted and should be known."""
    found = [f"Use of insecure cipher '{name}' detected." for name in insecure(options.tls_cipher_suites)]
    if "AlwaysAllow" in options.authorization_mode and options.anonymous_auth:
        found.append("AnonymousAuth is not allowed with the AlwaysAllow authorizer. Resetting AnonymousAuth to false.")
    if not gates.complaints(options.feature_gates):
        found += options.gates.warnings()
    return found


class _Parser:
    """argparse, with every complaint collected instead of the first one fatal."""

    def __init__(self, problems: list[str]) -> None:
        self._problems = problems
        self.parser = _Collecting(
            prog="nodeagent-apiserver",
            description="A light API server for one node or a few: durable, and the same on the wire.",
            allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
        )
        self.parser.problems = problems
        self._add_groups()
        for name in PENDING:
            self.parser.add_argument(
                f"--{name}", nargs="?", help=argparse.SUPPRESS, action=_Refuse, dest=argparse.SUPPRESS
            )

    def _add_groups(self) -> None:
        add = self._group("This server")
        add("--data-dir", Path, f"Database, keys and kubeconfig files. Default {_DEFAULT_DATA_DIR}.")
        add("--node-name", str, "Node whose identity the written node kubeconfig has. Default: the host name.")
        add(
            "--bind-pods-to-single-node",
            _boolean,
            "Give a pod without a node to the one ready node, as long as there is exactly one. Default true.",
        )
        add = self._group("Serving")
        add("--bind-address", _address, "IP address of the secure port. Default 127.0.0.1; 0.0.0.0 or :: means all.")
        add("--secure-port", _integer, "HTTPS port; 0 takes a free one. Default 6443.")
        add("--advertise-address", _address, "Address that clients are told. Default: the bind address.")
        add("--external-hostname", str, "Host name that the generated certificate names as well.")
        add("--permit-address-sharing", _boolean, "Bind with SO_REUSEADDR.")
        add("--permit-port-sharing", _boolean, "Bind with SO_REUSEPORT.")
        add = self._group("TLS")
        add("--tls-cert-file", Path, "Certificate, followed by its chain. Default: generated in --cert-dir.")
        add("--tls-private-key-file", Path, "Key of --tls-cert-file.")
        add("--cert-dir", Path, "Directory of generated certificates. Default: certs in --data-dir.")
        add("--tls-min-version", str, "VersionTLS10, VersionTLS11, VersionTLS12 (default) or VersionTLS13.")
        add("--tls-cipher-suites", _strings, "Cipher suites for TLS 1.2 and older, comma separated.")
        add = self._group("Authentication and authorization")
        add("--anonymous-auth", _boolean, "Let requests without credentials in as system:anonymous. Default true.")
        add("--client-ca-file", Path, "Authorities whose client certificates are accepted.")
        add("--token-auth-file", Path, "CSV file: token, user name, uid, groups.")
        add("--service-account-issuer", str, "Issuer of service account tokens.")
        add("--service-account-jwks-uri", str, "Where the issuer document says that the keys are. Default: here.")
        add(
            "--authorization-mode",
            _strings,
            "In order: AlwaysAllow, AlwaysDeny, Builtin (default: nodes and system:masters).",
        )
        add = self._group("Storage and limits")
        add(
            "--event-ttl", _seconds, "How long events are kept. Default 1h0m0s; 0 keeps them.", dest="event_ttl_seconds"
        )
        add("--max-requests-inflight", _integer, "Reads at a time; 0 is no limit. Default 400.")
        add("--max-mutating-requests-inflight", _integer, "Writes at a time; 0 is no limit. Default 200.")
        add(
            "--request-timeout", _duration, "Longest request that is no watch. Default 1m0s.", "request_timeout_seconds"
        )
        add(
            "--min-request-timeout",
            _integer,
            "Shortest time in seconds of a watch that names none. Default 1800.",
            "min_request_timeout_seconds",
        )
        add = self._group("Life of the server")
        add(
            "--livez-grace-period",
            _duration,
            "How long /livez takes an unfinished start for a good one. Default 0s.",
            "livez_grace_seconds",
        )
        add(
            "--shutdown-delay-duration",
            _duration,
            "How long requests are still served after /readyz has failed. Default 0s.",
            "shutdown_delay_seconds",
        )
        add(
            "--shutdown-send-retry-after",
            _boolean,
            "Answer 429 while requests under way end, instead of closing the port. Default false.",
        )
        add(
            "--shutdown-watch-termination-grace-period",
            _duration,
            "How long watches get to end at a stop. Default 0s: they are not waited for.",
            "shutdown_watch_grace_seconds",
        )
        add = self._group("Features")
        add(
            "--enable-garbage-collector",
            _boolean,
            "Delete objects with their owners, and honour the propagation policy. Default true.",
        )
        add("--profiling", _boolean, "Serve profiles at /debug/pprof/. Default true.")
        add("--feature-gates", _gates, "NAME=true|false, comma separated.", action=_Merge)
        add(
            "--runtime-config",
            parse_runtime_config,
            "What is served: api/all, api/ga, api/beta, api/alpha, GROUP/VERSION, each =true or =false.",
            action=_Merge,
        )
        add = self._group("Logging and others")
        add("-v", _verbosity, f"Log verbosity, 0 to {MAX_VERBOSITY}.", "verbosity", "--v")
        add("--vmodule", str, "Verbosity by file: pattern=N, comma separated.")
        add("--log-flush-frequency", _duration, "Longest wait of a log line.", "log_flush_frequency_seconds")
        add("--logging-format", _text_format, "Only text.", argparse.SUPPRESS)
        self.parser.add_argument("--version", nargs="?", action=_Version, help="Print the version and exit.")

    def _group(self, title: str) -> Callable[..., None]:
        group = self.parser.add_argument_group(title)

        def add(
            name: str,
            kind: Callable[[str], Any],
            text: str,
            dest: str = "",
            alias: str = "",
            action: type[argparse.Action] | None = None,
        ) -> None:
            names = [name, alias] if alias else [name]
            target = dest or name.lstrip("-").replace("-", "_")
            optional: dict[str, Any] = {"nargs": "?", "const": True} if kind is _boolean else {}
            if action is not None:
                optional["action"] = action
            group.add_argument(*names, type=kind, help=text, dest=target, metavar="VALUE", **optional)

        return add


class _Collecting(argparse.ArgumentParser):
    problems: list[str]

    def error(self, message: str) -> NoReturn:
        raise OptionsError([*self.problems, message])


class _Refuse(argparse.Action):
    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        parser.problems.append(f"{option_string} has no effect yet and is refused; leave it out")


class _Merge(argparse.Action):
    """Pairs of an option that is given several times add up."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        setattr(namespace, self.dest, {**getattr(namespace, self.dest, {}), **values})


class _Version(argparse.Action):
    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        from apiserver_stub.discovery import GIT_VERSION

        if values not in (None, "true", "raw"):
            parser.problems.append(f'{option_string}: "{values}" is neither empty nor raw')
            return
        sys.stdout.write(f"{GIT_VERSION}\n" if values == "raw" else f"nodeagent-apiserver {GIT_VERSION}\n")
        raise SystemExit(0)


def _unknown(argument: str) -> str:
    name = argument.partition("=")[0]
    return f"unknown flag: {name}" if name.startswith("-") else f"unexpected argument: {argument}"


def _boolean(text: str) -> bool:
    if text in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if text in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise argparse.ArgumentTypeError(f'strconv.ParseBool: parsing "{text}": invalid syntax')


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def _verbosity(text: str) -> int:
    value = _integer(text)
    if not 0 <= value <= MAX_VERBOSITY:
        raise argparse.ArgumentTypeError(f"{value} is not between 0 and {MAX_VERBOSITY}")
    return value


def _address(text: str) -> str:
    if not is_ip(text):
        raise argparse.ArgumentTypeError(f'failed to parse IP: "{text}"')
    return text


def _duration(text: str) -> float:
    try:
        return parse_duration(text).seconds
    except ValueError:
        raise argparse.ArgumentTypeError(f'time: invalid duration "{text}"') from None


def _seconds(text: str) -> int:
    return int(_duration(text))


def _strings(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _gates(text: str) -> dict[str, bool]:
    settings = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = item.partition("=")
        if not equals:
            raise argparse.ArgumentTypeError(f"missing bool value for {name}")
        try:
            settings[name.strip()] = _boolean(value.strip())
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentTypeError(f"invalid value of {item}, err: {error}") from None
    return settings


def _text_format(text: str) -> str:
    if text != "text":
        raise argparse.ArgumentTypeError(f'format: Invalid value: "{text}": Unsupported log format')
    return text
