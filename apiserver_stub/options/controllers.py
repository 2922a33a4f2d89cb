"""Command-line options for the bundled controllers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from apiserver_stub.controller_discovery import discover_controllers
from apiserver_stub.controllers import names
from apiserver_stub.options import values
from apiserver_stub.options.declare import Group

TITLE = "Controllers"


@dataclass(frozen=True)
class ControllerOptions:
    controllers: tuple[str, ...] = ("*",)

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


def check(options: ControllerOptions) -> Iterator[str]:
    yield from discover_controllers().errors
    yield from names.errors(options.controllers, known_controllers())
