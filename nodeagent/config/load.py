"""From a command line to one frozen configuration, with the origin of every value.

Defaults, then the file, then drop-ins in name order, then flags; a later one wins, feature gates merge key by key.
What is wrong anywhere is reported at once. Unlike the reference, there are no second, looser defaults for a command
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
from nodeagent.config.files import Layer, drop_ins, read_layer, reference_path, resolve_paths
from nodeagent.config.flags import Flags, parse
from nodeagent.config.names import NATIVE_KIND
from nodeagent.config.tree import Origin, Tree
from nodeagent.config.unset import drop_unset, fill_dependent
from nodeagent.config.validate import validate
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.contracts.settings import NodeSettings
from nodeagent.errors import ConfigError, Problem

_SECRET = "staticPodURLHeader"  # noqa: S105  a field name
_MASK = "<masked>"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration that keeps every rule."""

    config: NodeAgentConfiguration
    settings: NodeSettings
    gates: FeatureGates
    provenance: Tree
    """``provenance.origin(path)`` tells where a value came from."""
    warnings: tuple[str, ...]
    """What is accepted and deserves a word at start, a sentence each."""


def load_configuration(arguments: Sequence[str]) -> Loaded:
    """Read a command line and the files that it names; the one call that the program makes.

    Puts the identity that flags give in force first, because defaults depend on it.

    :param arguments: the flags of the daemon, without the program's name and subcommand.
    :raises ConfigError: something is wrong; carries every problem found.
    :raises SystemExit: ``--help`` or ``--version`` was given, or a flag without the value it needs (exit code 2).
    """
    return load(parse(arguments))


def load(flags: Flags) -> Loaded:
    """Read the files that *flags* name and lay the flags over them; see :func:`load_configuration`."""
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
    warnings = [*flags.warnings, *drop_unset(tree, reference=bool(layers) and layers[0].reference)]
    for path, value, flag in flags.overrides:
        _override(tree, path, value, Origin("flag", flag))
    warnings += fill_dependent(tree, reference=bool(layers) and layers[0].reference)
    return _finish(tree, flags, collector, warnings)


def masked(config: NodeAgentConfiguration) -> dict[str, Any]:
    """Return *config* as plain values for display: header values, which may be credentials, are hidden."""
    plain: dict[str, Any] = encode(config)
    plain[_SECRET] = {name: [_MASK] * len(values) for name, values in plain[_SECRET].items()}
    return plain


class _Collector:
    """Gathers problems, one a path and place, and hides what may be secret."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = list(problems)
        self._seen: set[tuple[str, str]] = set()
        self._wrong: list[str] = []

    def of(self, layer: Layer) -> Callable[[str, object, str], None]:
        """Return a report for what is wrong in one file whatever the others say."""
        return lambda path, value, rule: self.add(layer.origin(path), path, value, rule, typed=True)

    def add(self, origin: Origin, path: str, value: object, rule: str, *, typed: bool = False) -> None:
        """Note a problem; *typed* ones say that the value is no value at all, so no other rule about it counts."""
        if not typed and any(path == wrong or path.startswith((f"{wrong}.", f"{wrong}[")) for wrong in self._wrong):
            return
        if typed:
            self._wrong.append(path)
        if (origin.place, path) in self._seen and typed:
            return
        self._seen.add((origin.place, path))
        if path.startswith(_SECRET):
            value = None
        shown = reference_path(path) if origin.reference else path
        place = "configuration" if origin.kind == "default" else origin.place
        self.problems.append(Problem(place, shown, value, rule))


def _read_layers(settings: NodeSettings, collector: _Collector) -> list[Layer]:
    paths = [settings.config] if settings.config else []
    layers, unread = [], None
    try:
        if settings.config_dir:
            paths += drop_ins(settings.config_dir)
    except ConfigError as error:
        collector.problems += error.problems
        unread = error
    for path in paths:
        try:
            layers.append(read_layer(path, [NATIVE_KIND]))
        except ConfigError as error:
            collector.problems += error.problems
            unread = error
    if unread is not None:
        for layer in layers:
            decode(NodeAgentConfiguration, layer.value, collector.of(layer))
        raise type(unread)(collector.problems)
    return layers


def _override(tree: Tree, path: str, value: Any, origin: Origin) -> None:
    if path == "featureGates":
        tree.merge({path: value}, lambda _: origin)
    else:
        tree.replace(tuple(path.split(".")), value, origin)


def _finish(tree: Tree, flags: Flags, collector: _Collector, warnings: list[str]) -> Loaded:
    """Turn the merged values into the configuration and check it as a whole."""
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
        refused = {problem.name for problem in error.problems}
        gates = build_gates({name: on for name, on in config.feature_gates.items() if name not in refused})
    warnings += gates.warnings()
    warnings += validate(config, gates, lambda path, value, rule: collector.add(tree.origin(path), path, value, rule))
    for path in ("iptablesMasqueradeBit", "iptablesDropBit"):
        if tree.get((path,)) is not None:
            warnings.append(f"{path} is deprecated and has no effect")
    if collector.problems:
        raise ConfigError(collector.problems)
    return Loaded(config, flags.settings, gates, tree, tuple(warnings))
