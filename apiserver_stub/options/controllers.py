"""Command-line options for the bundled controllers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from apiserver_stub.controller_discovery import discover_controllers
from apiserver_stub.controllers import names
from apiserver_stub.options import values
from apiserver_stub.options.declare import Group

TITLE = "Controllers"
_JITTER = 1.2
"""Least ratio of renewal deadline and retry period, as in Kubernetes."""


@dataclass(frozen=True, init=False, repr=False, eq=False)  # only a base of Options
class ControllerOptions:
    """Values of the command-line options for the bundled controllers."""

    controllers: tuple[str, ...] = ("*",)
    leader_elect_lease_seconds: float = 15.0
    leader_elect_renew_deadline_seconds: float = 10.0
    leader_elect_retry_seconds: float = 2.0

    def runs_controller(self, name: str) -> bool:
        """Return whether the controller *name* is enabled."""
        disabled = {item.name for item in discover_controllers().controllers if not item.enabled_by_default}
        return names.is_enabled(self.controllers, name, known_controllers()[name], by_default=name not in disabled)


def known_controllers() -> Mapping[str, str]:
    """Return the names of all controllers, with those of older releases."""
    return {**names.OTHERS, **{item.name: item.alias for item in discover_controllers().controllers}}


def declare(group: Group) -> None:
    group.add(
        "controllers",
        values.strings,
        "Controllers to run: '*' enables all, 'foo' enables and '-foo' disables the controller foo. They are inactive "
        f"while a kube-controller-manager holds its lease. All: {', '.join(sorted(known_controllers()))}. Default *.",
    )
    group.add(
        "leader-elect-lease-duration",
        values.duration,
        "With several servers of a store: time without a renewal of the leader's lease until another server runs the "
        "controllers. Default 15s.",
        dest="leader_elect_lease_seconds",
    )
    group.add(
        "leader-elect-renew-deadline",
        values.duration,
        "Time after which a leader that cannot renew its lease stops its controllers. Default 10s.",
        dest="leader_elect_renew_deadline_seconds",
    )
    group.add(
        "leader-elect-retry-period",
        values.duration,
        "Interval between attempts to acquire or renew the lease. Default 2s.",
        dest="leader_elect_retry_seconds",
    )


def check(options: ControllerOptions) -> Iterator[str]:
    yield from discover_controllers().errors
    yield from names.errors(options.controllers, known_controllers())
    if options.leader_elect_retry_seconds <= 0:
        yield "leader-elect-retry-period must be greater than zero"
    if options.leader_elect_renew_deadline_seconds <= _JITTER * options.leader_elect_retry_seconds:
        yield "leader-elect-renew-deadline must be greater than 1.2 times leader-elect-retry-period"
    if options.leader_elect_lease_seconds <= options.leader_elect_renew_deadline_seconds:
        yield "leader-elect-lease-duration must be greater than leader-elect-renew-deadline"
