"""Differences between recorded responses and those of the bundled server, and the list of accepted ones. No I/O."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import yaml

from tests.differential.cases import Outcome
from tests.differential.edits import difference

ACCEPTED = Path(__file__).parent / "accepted.yaml"


class Request(Protocol):
    """A case of a resource, or a step of a scenario."""

    def to_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Accepted:
    """A difference that stays, with its reason."""

    resource: str
    pattern: str
    reason: str
    case: str = ""
    """Expression that is searched for in the JSON text of the case."""

    def applies(self, resource: str, case: Request) -> bool:
        """Return whether differences of *case* can be of this kind."""
        if not re.fullmatch(self.resource, resource):
            return False
        return not self.case or re.search(self.case, json.dumps(case.to_json())) is not None

    def covers(self, found: str) -> bool:
        """Return whether the difference *found* is of this kind."""
        return re.fullmatch(self.pattern, found) is not None


@dataclass(frozen=True)
class Difference:
    """One case with another response of the bundled server."""

    resource: str
    case: Request
    recorded: Outcome
    ours: Outcome
    found: tuple[str, ...]
    """Differences as texts: ``aspect: upstream's value → ours``."""


def accepted() -> list[Accepted]:
    """Return the accepted differences."""
    entries = yaml.safe_load(ACCEPTED.read_text()) or []
    return [Accepted(**entry) for entry in entries]


def covering(rules: Sequence[Accepted], difference: Difference) -> set[Accepted]:
    """Return the rules that accept *difference*; none where a part of it has no rule."""
    found: set[Accepted] = set()
    applicable = [rule for rule in rules if rule.applies(difference.resource, difference.case)]
    for text in difference.found:
        rule = next((rule for rule in applicable if rule.covers(text)), None)
        if rule is None:
            return set()
        found.add(rule)
    return found


def compare(resource: str, case: Request, recorded: Outcome, ours: Outcome) -> Difference | None:
    """Return the difference of two outcomes, ``None`` where they are equal."""
    found = []
    if recorded.code != ours.code:
        found.append(f"code: {recorded.code} → {ours.code}")
    if recorded.reason != ours.reason:
        found.append(f"reason: {recorded.reason} → {ours.reason}")
    if recorded.causes != ours.causes:
        missing = Counter(recorded.causes) - Counter(ours.causes)
        added = Counter(ours.causes) - Counter(recorded.causes)
        found += [f"cause missing: {reason} {field}" for reason, field in missing.elements()]
        found += [f"cause added: {reason} {field}" for reason, field in added.elements()]
    if recorded.messages and recorded.messages != ours.messages:
        found.append(f"messages: {recorded.messages} → {ours.messages}")
    if recorded.warnings != ours.warnings:
        found += [f"warning missing: {text}" for text in recorded.warnings if text not in ours.warnings]
        found += [f"warning added: {text}" for text in ours.warnings if text not in recorded.warnings]
    if recorded.obj is not None and ours.obj is not None and recorded.obj != ours.obj:
        edit = difference(recorded.obj, ours.obj)
        found += [f"object: {path} is {value!r}" for path, value in edit.set.items()]
        found += [f"object: {path} is absent" for path in edit.unset]
    return Difference(resource, case, recorded, ours, tuple(found)) if found else None
