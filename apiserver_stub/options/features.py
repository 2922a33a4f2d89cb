"""Command-line options for features, API versions, profiling and tracing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from apiserver_stub import feature_gates
from apiserver_stub.apimachinery.version import git_version
from apiserver_stub.kinds import runtime_config
from apiserver_stub.options import values
from apiserver_stub.options.declare import BAD_VALUE, Group, Merge
from apiserver_stub.options.names import NameOptions
from nodeagent.base.gates import FeatureGates
from nodeagent.base.release import OLDEST, Release

TITLE = "Features"


@dataclass(frozen=True, init=False, repr=False, eq=False)  # only a base of Options
class FeatureOptions(NameOptions):
    """Feature options; the names of API groups in ``--runtime-config`` depend on the name options."""

    profiling: bool = True
    contention_profiling: bool = False
    debug_socket_path: Path | None = None
    tracing_config_file: Path | None = None
    compatibility_version: Release = OLDEST
    """Kubernetes release whose API the server has."""
    reported_version: str = ""
    """Version that ``/version`` reports instead of the default."""
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    runtime_config: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def gates(self) -> FeatureGates:
        """State of all feature gates.

        :raises GateError: the settings are invalid, which :func:`check` reports.
        """
        return feature_gates.build_gates(self.feature_gates, self.compatibility_version)


def declare(group: Group) -> None:
    group.add("profiling", values.boolean, "Serve profiles at /debug/pprof/. Default true.")
    group.add(
        "contention-profiling", values.boolean, "Profile operations that block the event loop, at /debug/pprof/block."
    )
    group.add(
        "debug-socket-path", Path, "Unix socket that serves unauthenticated profiling, independent of --profiling."
    )
    group.add("tracing-config-file", Path, "TracingConfiguration file: OTLP endpoint and sampling rate.")
    group.add(
        "compatibility-version",
        values.release,
        "Kubernetes release that determines feature gates, validation and the reported version, such as 1.36. "
        f"Default {OLDEST}.",
    )
    group.add("feature-gates", values.switches, "Feature gates: NAME=true|false, comma separated.", action=Merge)
    group.add(
        "runtime-config",
        runtime_config.parse_runtime_config,
        "API versions to serve: api/all, api/ga, api/beta, api/alpha or GROUP/VERSION, each =true or =false.",
        action=Merge,
    )


def gate_errors(options: FeatureOptions) -> list[str]:
    """Return the errors in ``--feature-gates`` for the selected release."""
    return feature_gates.validation_errors(options.feature_gates, options.compatibility_version)


def check(options: FeatureOptions) -> Iterator[str]:
    reported, default = options.reported_version, git_version(options.compatibility_version)
    if reported and reported.partition("-")[0].partition("+")[0] != default:
        text = f'version "{reported}" must match major/minor/patch of default version "{default}"'
        yield f'{BAD_VALUE}"{reported}" for "--version" flag: {text}'
    yield from gate_errors(options)
    yield from runtime_config.errors(options.runtime_config, options.identity, options.compatibility_version)


def warnings(options: FeatureOptions) -> Iterator[str]:
    if not gate_errors(options):
        yield from options.gates.warnings()
        yield from feature_gates.idle(options.feature_gates, options.compatibility_version)
