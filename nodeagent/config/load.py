"""Load the configuration from command line and files, with the origin of every value.

Order: defaults, file, drop-ins by name, flags; later values take precedence, feature gates are merged per key.
All problems are reported together. Unlike the kubelet, there is no second set of defaults for a command
line without a file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nodeagent.base import identity
from nodeagent.base.gates import FeatureGates, GateError
from nodeagent.config.codec import child, decode, encode
from nodeagent.config.features import build_gates
from nodeagent.config.files import Layer, drop_ins, kubelet_path, read_layer, resolve_paths
from nodeagent.config.flags import Flags, parse
from nodeagent.config.names import NATIVE_KIND
from nodeagent.config.tree import Origin, Tree
from nodeagent.config.unset import drop_unset, fill_dependent
from nodeagent.config.validate import validate
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.contracts.settings import NodeSettings
from nodeagent.errors import ConfigError, Problem

_SECRET = "staticPodURLHeader"  # noqa: S105  (the name of a field)
_MASK = "<masked>"


@dataclass(frozen=True, slots=True)
class Loaded:
    """Valid configuration."""

    config: NodeAgentConfiguration
    settings: NodeSettings
    gates: FeatureGates
    provenance: Tree
    """Origin of each value, see ``provenance.origin(path)``."""
    warnings: tuple[str, ...]
    """One message per accepted setting that deserves attention, for the log at start."""


def load_configuration(arguments: Sequence[str]) -> Loaded:
    """Load the configuration of a command line and its files; the entry point of the package.

    Sets the identity from the flags first, because defaults depend on it.

    :param arguments: flags of the daemon, without the name of the executable and the subcommand.
    :raises ConfigError: the configuration is invalid; lists all problems.
    :raises SystemExit: ``--help`` or ``--version`` is set, or a flag without its required value (exit code 2).
    """
    return load(parse(arguments))


def load(flags: Flags) -> Loaded:
    """Read the files of *flags* and apply the flags; see :func:`load_configuration`."""
    identity.configure(flags.settings.identity)
    collector = _Collector(flags.problems)
    layers = _read_layers(flags.settings, collector)
    for layer in layers:
        resolve_paths(layer)
        decode(NodeAgentConfiguration, layer.value, collector.of(layer))
    tree = Tree()
    for index, layer in enumerate(layers):
        kind = "drop-in" if index or not flags.settings.config else "file"
        tree.merge(layer.value, lambda path, layer=layer, kind=kind: layer.origin(path, kind))  # type: ignore[misc]
    warnings = [*flags.warnings, *drop_unset(tree, kubelet_format=bool(layers) and layers[0].kubelet_format)]
    for path, value, flag in flags.overrides:
        _override(tree, path, value, Origin("flag", flag))
    warnings += fill_dependent(tree, kubelet_format=bool(layers) and layers[0].kubelet_format)
    return _finish(tree, flags, collector, warnings)


def masked(config: NodeAgentConfiguration) -> dict[str, Any]:
    """Return *config* as plain values for display; header values, which may be credentials, are masked."""
    plain: dict[str, Any] = encode(config)
    plain[_SECRET] = {name: [_MASK] * len(values) for name, values in plain[_SECRET].items()}
    return plain


class _Collector:
    """Collector of problems, one per path and origin, that masks possible secrets."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = list(problems)
        self._seen: set[tuple[str, str]] = set()
        self._wrong: list[str] = []

    def of(self, layer: Layer) -> Callable[[str, object, str], None]:
        """Return the report function for decoding errors of one file."""
        return lambda path, value, rule: self.add(layer.origin(path), path, value, rule, typed=True)

    def add(self, origin: Origin, path: str, value: object, rule: str, *, typed: bool = False) -> None:
        """Add a problem; after a *typed* one, a decoding error, further problems of the value are ignored."""
        if not typed and any(path == wrong or path.startswith((f"{wrong}.", f"{wrong}[")) for wrong in self._wrong):
            return
        if typed:
            self._wrong.append(path)
        if (origin.location, path) in self._seen and typed:
            return
        self._seen.add((origin.location, path))
        if path.startswith(_SECRET):
            value = None
        shown_path = kubelet_path(path) if origin.kubelet_format else path
        location = "configuration" if origin.kind == "default" else origin.location
        self.problems.append(Problem(location, shown_path, value, rule))


def _read_layers(settings: NodeSettings, collector: _Collector) -> list[Layer]:
    paths = [settings.config] if settings.config else []
    layers, read_error = [], None
    try:
        if settings.config_dir:
            paths += drop_ins(settings.config_dir)
    except ConfigError as error:
        collector.problems += error.problems
        read_error = error
    for path in paths:
        try:
            layers.append(read_layer(path, [NATIVE_KIND]))
        except ConfigError as error:
            collector.problems += error.problems
            read_error = error
    if read_error is not None:
        for layer in layers:
            decode(NodeAgentConfiguration, layer.value, collector.of(layer))
        raise type(read_error)(collector.problems)
    return layers


def _override(tree: Tree, path: str, value: Any, origin: Origin) -> None:
    if path == "featureGates":
        tree.merge({path: value}, lambda _: origin)
    else:
        tree.replace(tuple(path.split(".")), value, origin)


def _finish(tree: Tree, flags: Flags, collector: _Collector, warnings: list[str]) -> Loaded:
    """Decode the merged values and validate the complete configuration."""
    config = decode(
        NodeAgentConfiguration,
        tree.value,
        lambda path, value, rule: collector.add(tree.origin(path), path, value, rule, typed=True),
    )
    try:
        gates = build_gates(config.feature_gates)
    except GateError as error:
        for problem in error.problems:
            path = child("featureGates", problem.name)
            collector.add(tree.origin(path), path, problem.value, problem.rule)
        rejected = {problem.name for problem in error.problems}
        gates = build_gates({name: on for name, on in config.feature_gates.items() if name not in rejected})
    warnings += gates.warnings()
    warnings += validate(config, gates, lambda path, value, rule: collector.add(tree.origin(path), path, value, rule))
    for path in ("iptablesMasqueradeBit", "iptablesDropBit"):
        if tree.get((path,)) is not None:
            warnings.append(f"{path} is deprecated and has no effect")
    if collector.problems:
        raise ConfigError(collector.problems)
    return Loaded(config, flags.settings, gates, tree, tuple(warnings))
