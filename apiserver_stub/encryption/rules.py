"""Which sealers are for which resource: the first writes, all of them read."""

from __future__ import annotations

from dataclasses import dataclass, field

from apiserver_stub.encryption.sealers import IDENTITY, Sealer, Unreadable

_CLEAR = (IDENTITY,)
_PROBE = b"probe"
_INTERNAL = ("core/masterleases", "core/ranges")
"""Never sealed, as all users of a shared store agree; what once was is read, and written anew."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of the file: resources as ``(plural, group)``, where ``*`` is any, and their sealers in order."""

    resources: tuple[tuple[str, str], ...]
    sealers: tuple[Sealer, ...]

    def covers(self, plural: str, group: str) -> bool:
        return any(name in ("*", plural) and area in ("*", group) for name, area in self.resources)


@dataclass(frozen=True, slots=True)
class Rules:
    """The whole file; the first entry that covers a resource counts."""

    rules: tuple[Rule, ...] = ()
    _found: dict[str, tuple[Sealer, ...]] = field(default_factory=dict)

    def sealers(self, collection: str) -> tuple[Sealer, ...]:
        """Return the sealers of *collection* (``group/plural``)."""
        found = self._found.get(collection)
        if found is None:
            group, _, plural = collection.rpartition("/")
            area = "" if group == "core" else group
            found = next((rule.sealers for rule in self.rules if rule.covers(plural, area)), _CLEAR)
            if collection in _INTERNAL:
                found = (IDENTITY, *found)
            self._found[collection] = found
        return found


class Encryption:
    """Seals and opens values by the rules of the moment; safe to use from several threads."""

    def __init__(self, rules: Rules | None = None) -> None:
        self.rules = rules or Rules()

    def writer(self, collection: str) -> Sealer:
        """Return what seals new values of *collection*."""
        return self.rules.sealers(collection)[0]

    def open(self, collection: str, stored: bytes, place: bytes) -> tuple[bytes, Sealer]:
        """Return what was stored at *place*, and what had sealed it.

        :raises Unreadable: no key of the rules fits.
        """
        problems = []
        for sealer in self.rules.sealers(collection):
            if stored.startswith(sealer.label):
                try:
                    return sealer.open(stored, place), sealer
                except Unreadable as error:
                    problems.append(str(error))
        raise Unreadable(", ".join(problems) or "no matching prefix found")

    def check(self) -> str:
        """Seal and open a value with every first sealer and return what is wrong, empty when nothing is."""
        for rule in self.rules.rules:
            writer = rule.sealers[0]
            try:
                sound = writer.open(writer.seal(_PROBE, _PROBE), _PROBE) == _PROBE
            except Unreadable:
                sound = False
            if not sound:
                return f"{writer.label.decode() or 'identity'} does not read what it wrote"
        return ""
