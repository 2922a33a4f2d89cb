"""Feature gates: named switches with a stage of maturity and a default."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum

from nodeagent.base.boolean import parse_bool
from nodeagent.base.similarity import most_similar
from nodeagent.base.structs import Struct


class Stage(Enum):
    """Maturity of a feature; the value appears in metrics and listings."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = ""
    DEPRECATED = "DEPRECATED"


ALL_ALPHA = "AllAlpha"
ALL_BETA = "AllBeta"
_STAGE_WIDE = {ALL_ALPHA: Stage.ALPHA, ALL_BETA: Stage.BETA}


class FeatureGate(Struct, frozen=True):
    """Feature gate: name, stage and default; the value of a *locked* gate cannot be changed."""

    name: str
    stage: Stage
    default: bool
    locked: bool = False


class GateProblem(Struct, frozen=True):
    """Invalid setting; ``rule`` is the violated rule, a predicate whose subject is the gate."""

    name: str
    value: object
    rule: str


class GateError(ValueError):
    """Settings name an unknown gate or change a locked one; ``problems`` lists all of them."""

    def __init__(self, problems: Iterable[GateProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(f"feature gate {problem.name}: {problem.rule}" for problem in self.problems))


class FeatureGates:
    """State of all feature gates after applying the settings. Immutable.

    ``AllAlpha`` and ``AllBeta`` set every gate of that stage that is neither locked nor set individually.

    :param known: all existing gates.
    :param settings: value by gate name, from a file or a flag.
    :param aliases: name in *known* by alternative spelling.
    :param absent: constant state of gates that do not exist and cannot be set, but can be queried.
    :raises GateError: a name is unknown or a locked gate would change.
    """

    def __init__(
        self,
        known: Iterable[FeatureGate],
        settings: Mapping[str, bool] | None = None,
        aliases: Mapping[str, str] | None = None,
        absent: Mapping[str, bool] | None = None,
    ) -> None:
        self._known = {gate.name: gate for gate in known}
        named = {(aliases or {}).get(name, name): value for name, value in (settings or {}).items()}
        problems = list(self._problems(named))
        if problems:
            raise GateError(problems)
        self._named = named
        self._state = {**(absent or {}), **{gate.name: self._compute(gate) for gate in self._known.values()}}

    def enabled(self, name: str) -> bool:
        """Return whether the feature is enabled.

        :raises KeyError: there is no such gate; a programming error.
        """
        return self._state[name]

    def exists(self, name: str) -> bool:
        """Return whether there is such a gate; the state of others is constant."""
        return name in self._known

    def switched_off(self, name: str) -> bool:
        """Return whether the settings explicitly disable this gate."""
        return self._named.get(name) is False

    def warnings(self) -> list[str]:
        """Return a warning for each setting that a future release will reject."""
        return [
            f"Setting {'GA' if gate.stage is Stage.GA else 'deprecated'} feature gate {name}={str(value).lower()}. "
            "It will be removed in a future release."
            for name, value in self._named.items()
            if (gate := self._known.get(name)) is not None and gate.stage in (Stage.GA, Stage.DEPRECATED)
        ]

    def __iter__(self) -> Iterator[tuple[FeatureGate, bool]]:
        """Yield each gate with its state, sorted by name."""
        for name in sorted(self._known):
            yield self._known[name], self._state[name]

    def _compute(self, gate: FeatureGate) -> bool:
        if gate.name in self._named:
            return self._named[gate.name]
        if not gate.locked:
            for wide, stage in _STAGE_WIDE.items():
                if gate.stage is stage and wide in self._named:
                    return self._named[wide]
        return gate.default

    def _problems(self, named: Mapping[str, bool]) -> Iterator[GateProblem]:
        for name, value in named.items():
            if name in _STAGE_WIDE:
                continue
            gate = self._known.get(name)
            if gate is None:
                near = most_similar(name, [*self._known, *_STAGE_WIDE], 0.75)
                hint = f"; did you mean {near}?" if near else ""
                yield GateProblem(name, value, f"is an unrecognized feature gate{hint}")
            elif gate.locked and value != gate.default:
                yield GateProblem(name, value, f"is locked to {str(gate.default).lower()}")


def parse_gates(text: str) -> dict[str, bool]:
    """Parse the flag format ``A=true,B=false``.

    :raises ValueError: an item has no ``=``, or its value is not a boolean.
    """
    settings: dict[str, bool] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = item.partition("=")
        flag = parse_bool(value.strip())
        if not equals or flag is None:
            raise ValueError(f"has the item {item!r}, must be NAME=true or NAME=false")
        settings[name.strip()] = flag
    return settings
