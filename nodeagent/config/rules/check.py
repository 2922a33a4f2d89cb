"""Helpers of the validation rules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import field

from nodeagent.base.duration import Duration
from nodeagent.base.gates import FeatureGates
from nodeagent.base.release import SelectedRelease
from nodeagent.base.structs import Struct
from nodeagent.config.codec import Report
from nodeagent.config.features import enabled_since
from nodeagent.config.fields import all_fields
from nodeagent.contracts.configuration import NodeAgentConfiguration

_ZERO = Duration()


class Check(Struct, frozen=True):
    """Context of a validation: configuration, feature gates and report function. Methods accept field paths."""

    config: NodeAgentConfiguration
    gates: FeatureGates
    report: Report
    warnings: list[str]
    release: SelectedRelease = field(default_factory=SelectedRelease)

    def value(self, path: str) -> Any:
        """Return the value of the field at *path*."""
        value: Any = self.config
        for attribute in all_fields()[path].attributes:
            value = getattr(value, attribute)
        return value

    def fail(self, path: str, rule: str) -> None:
        """Report that the field at *path* violates *rule*."""
        self.report(path, _plain(self.value(path)), rule)

    def at_least(self, low: int, *paths: str) -> None:
        """Check that numbers are not smaller than *low*."""
        rule = "must not be negative" if low == 0 else f"must be {low} or greater"
        for path in paths:
            if self.value(path) < low:
                self.fail(path, rule)

    def between(self, low: int, high: int, *paths: str, zero: str = "") -> None:
        """Check that numbers are between *low* and *high*, or 0 if *zero* states its meaning."""
        for path in paths:
            value = self.value(path)
            if not low <= value <= high and not (zero and value == 0):
                self.fail(path, f"must be between {low} and {high}" + (f", or 0 ({zero})" if zero else ""))

    def positive(self, *paths: str) -> None:
        """Check that durations are positive."""
        for path in paths:
            if self.value(path) <= _ZERO:
                self.fail(path, "must be longer than 0s")

    def not_negative(self, *paths: str) -> None:
        """Check that durations are not negative."""
        for path in paths:
            if self.value(path) < _ZERO:
                self.fail(path, "must not be negative")

    def one_of(self, path: str, options: Iterable[str], *, fold: bool = False) -> None:
        """Check that a string is one of *options*; with *fold*, case is ignored."""
        value, options = self.value(path), list(options)
        if (value.lower() if fold else value) not in options:
            self.fail(path, f"must be one of {', '.join(option or repr(option) for option in options)}")

    def needs_gate(self, path: str, gate: str) -> bool:
        """Report a field that is set while *gate* is disabled; return whether it is enabled.

        While the release is only assumed, a gate that a later release enables does not prevent the start: the API
        server may turn out to have that release.
        """
        if self.gates.enabled(gate):
            return True
        since = "" if self.gates.switched_off(gate) else enabled_since(gate)
        if since and self.release.assumed:
            self.warnings.append(f"{path} has no effect: it needs the feature gate {gate}, enabled since {since}")
        else:
            hint = f", enabled by default since release {since} (--compatibility-version)" if since else ""
            self.fail(path, f"needs the feature gate {gate}{hint}")
        return False


def _plain(value: Any) -> object:
    if isinstance(value, Duration):
        return str(value)
    return value if isinstance(value, str | int | float | bool) else None
