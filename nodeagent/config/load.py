"""Load the configuration from command line and files, with the origin of every value.

Order: defaults, file, drop-ins by name, flags; later values take precedence, feature gates are merged per key.
All problems are reported together. Unlike the kubelet, there is no second set of defaults for a command
line without a file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from nodeagent.base import identity
from nodeagent.base.gates import FeatureGates, GateError
from nodeagent.base.release import SelectedRelease
from nodeagent.base.structs import Struct
from nodeagent.config.codec import child, decode, encode
from nodeagent.config.features import build_gates, review_settings
from nodeagent.config.files import Layer, drop_ins, kubelet_path, read_layer, resolve_paths, skipped_files
from nodeagent.config.flags import Flags, parse
from nodeagent.config.names import NATIVE_KIND
from nodeagent.config.release import Discover, explain_bounds, select_release
from nodeagent.config.tree import Origin, Tree
from nodeagent.config.unknown import is_tolerated
from nodeagent.config.unset import drop_unset, fill_dependent
from nodeagent.config.validate import validate
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.contracts.settings import NodeSettings
from nodeagent.errors import ConfigError, Problem

_SECRET = "staticPodURLHeader"  # noqa: S105  (the name of a field)
_MASK = "<masked>"


class Loaded(Struct, frozen=True):
    """Valid configuration."""

    config: NodeAgentConfiguration
    settings: NodeSettings
    gates: FeatureGates
    provenance: Tree
    """Origin of each value, see ``provenance.origin(path)``."""
    warnings: tuple[str, ...]
    """One message per accepted setting that deserves attention, for the log at start."""
    release: SelectedRelease
    """Release on which feature gates and defaults depend."""
    tolerated: tuple[Problem, ...] = ()
    """Unknown fields and gates, which are ignored at start: each is a warning, and an error for strict validation."""


def load_configuration(arguments: Sequence[str], discover: Discover | None = None) -> Loaded:
    """Load the configuration of a command line and its files; the entry point of the package.

    Sets the identity from the flags first, because defaults depend on it.

    :param arguments: flags of the daemon, without the name of the executable and the subcommand.
    :param discover: queries the version of the API server; see :func:`nodeagent.config.release.select_release`.
    :raises ConfigError: the configuration is invalid; lists all problems.
    :raises SystemExit: ``--help`` or ``--version`` is set, or a flag without its required value (exit code 2).
    """
    return load(parse(arguments), discover)


def load_file(path: str, release: SelectedRelease) -> Loaded:
    """Load one file without flags, as for *release*; see :func:`load_configuration`."""
    return load(parse([f"--config={path}"]), release=release)


def load(flags: Flags, discover: Discover | None = None, *, release: SelectedRelease | None = None) -> Loaded:
    """Read the files of *flags* and apply the flags; see :func:`load_configuration`.

    :param release: the release; by default it is selected.
    """
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
    directory = flags.settings.config_dir
    skipped = skipped_files(directory) if directory else []
    warnings = [*flags.warnings, *(f"{path} is skipped: the name of a drop-in must end in .conf" for path in skipped)]
    warnings += [*drop_unset(tree, kubelet_format=bool(layers) and layers[0].kubelet_format)]
    for path, value, flag in flags.overrides:
        _override(tree, path, value, Origin("flag", flag))
    warnings += fill_dependent(tree, kubelet_format=bool(layers) and layers[0].kubelet_format)
    selected = release or select_release(flags.settings, discover)
    if warning := explain_bounds(selected):
        warnings.append(warning)
    return _finish(tree, flags, collector, warnings, selected)


def masked(config: NodeAgentConfiguration) -> dict[str, Any]:
    """Return *config* as plain values for display; header values, which may be credentials, are masked."""
    plain: dict[str, Any] = encode(config)
    plain[_SECRET] = {name: [_MASK] * len(values) for name, values in plain[_SECRET].items()}
    return plain


class _Collector:
    """Collector of problems, one per path and origin, that masks possible secrets."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = list(problems)
        self._ordered = list(problems)
        self._seen: set[tuple[str, str]] = set()
        self._wrong: list[str] = []
        self.tolerated: list[Problem] = []

    def reject(self, error: type[ConfigError] = ConfigError) -> NoReturn:
        """Raise *error* with all problems, including those that alone would not prevent the start."""
        raise error(self._ordered)

    def include(self, error: ConfigError) -> None:
        """Add the problems of *error*."""
        self.problems += error.problems
        self._ordered += error.problems

    def of(self, layer: Layer) -> Callable[[str, object, str], None]:
        """Return the report function for decoding errors of one file."""
        return lambda path, value, rule: self.add(layer.origin(path), path, value, rule, typed=True)

    def add(self, origin: Origin, path: str, value: object, rule: str, *, typed: bool = False) -> None:
        """Add a problem; after a *typed* one, a decoding error, further problems of the value are ignored."""
        if not typed and any(path == wrong or path.startswith((f"{wrong}.", f"{wrong}[")) for wrong in self._wrong):
            return
        if is_tolerated(path, rule):
            self.tolerate(origin, path, value, rule)
            return
        if typed:
            self._wrong.append(path)
        if (origin.location, path) in self._seen and typed:
            return
        self._seen.add((origin.location, path))
        if path.startswith(_SECRET):
            value = None
        problem = _problem(origin, path, value, rule)
        self.problems.append(problem)
        self._ordered.append(problem)

    def tolerate(self, origin: Origin, path: str, value: object, rule: str) -> None:
        """Add a problem that does not prevent the start."""
        problem = _problem(origin, path, value, rule)
        if problem not in self.tolerated:
            self.tolerated.append(problem)
            self._ordered.append(problem)


def _problem(origin: Origin, path: str, value: object, rule: str) -> Problem:
    shown_path = kubelet_path(path) if origin.kubelet_format else path
    location = "configuration" if origin.kind == "default" else origin.location
    return Problem(location, shown_path, value, rule)


def _read_layers(settings: NodeSettings, collector: _Collector) -> list[Layer]:
    paths = [settings.config] if settings.config else []
    layers, read_error = [], None
    try:
        if settings.config_dir:
            paths += drop_ins(settings.config_dir)
    except ConfigError as error:
        collector.include(error)
        read_error = error
    for path in paths:
        try:
            layers.append(read_layer(path, [NATIVE_KIND]))
        except ConfigError as error:
            collector.include(error)
            read_error = error
    if read_error is not None:
        for layer in layers:
            decode(NodeAgentConfiguration, layer.value, collector.of(layer))
        collector.reject(type(read_error))
    return layers


def _override(tree: Tree, path: str, value: Any, origin: Origin) -> None:
    if path == "featureGates":
        tree.merge({path: value}, lambda _: origin)
    else:
        tree.replace(tuple(path.split(".")), value, origin)


def _finish(tree: Tree, flags: Flags, collector: _Collector, warnings: list[str], selected: SelectedRelease) -> Loaded:
    """Decode the merged values and validate the complete configuration."""
    config = decode(
        NodeAgentConfiguration,
        tree.value,
        lambda path, value, rule: collector.add(tree.origin(path), path, value, rule, typed=True),
    )
    try:
        gates = build_gates(config.feature_gates, selected.release)
    except GateError as error:
        for problem in error.problems:
            path = child("featureGates", problem.name)
            collector.add(tree.origin(path), path, problem.value, problem.rule)
        rejected = {problem.name for problem in error.problems}
        accepted = {name: on for name, on in config.feature_gates.items() if name not in rejected}
        gates = build_gates(accepted, selected.release)
    warnings += gates.warnings()
    for remark in review_settings(config.feature_gates, selected.release):
        path = child("featureGates", remark.name)
        if remark.unknown:
            collector.tolerate(tree.origin(path), path, remark.value, remark.reason)
        else:
            warnings.append(f"feature gate {remark.name} {remark.reason}; the setting is ignored")
    warnings += validate(
        config, gates, lambda path, value, rule: collector.add(tree.origin(path), path, value, rule), selected
    )
    for path in ("iptablesMasqueradeBit", "iptablesDropBit"):
        if tree.get((path,)) is not None:
            warnings.append(f"{path} is deprecated and has no effect")
    if collector.problems:
        collector.reject()
    warnings += [f"{problem}; ignored" for problem in collector.tolerated]
    return Loaded(config, flags.settings, gates, tree, tuple(warnings), selected, tuple(collector.tolerated))
