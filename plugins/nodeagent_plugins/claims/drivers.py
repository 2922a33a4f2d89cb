"""Registered drivers.

Several of one name are registered during a rolling update; the latest connected one is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nodeagent.base.structs import MutableStruct
from nodeagent.contracts.claims import ClaimDriver
from nodeagent.errors import ClaimError


class RegisteredDriver(MutableStruct, eq=False):
    """A driver and its connection."""

    driver: ClaimDriver
    connected: bool = True
    has_health: bool = False


class Drivers:
    """The registered drivers by name, the latest last."""

    def __init__(self) -> None:
        self._drivers: dict[str, list[RegisteredDriver]] = {}
        self._listeners: list[Callable[[str], None]] = []

    def __iter__(self) -> Iterator[RegisteredDriver]:
        return iter([each for found in self._drivers.values() for each in found])

    def on_change(self, listener: Callable[[str], None]) -> None:
        """Call *listener* with the name of a driver after each change of its registrations or connections."""
        self._listeners.append(listener)

    def get(self, name: str) -> ClaimDriver:
        """Return the driver to use.

        :raises ClaimError: it is not registered.
        """
        found = self._drivers.get(name) or ()
        if not found:
            raise ClaimError(f"DRA driver {name} is not registered")
        return next((each for each in reversed(found) if each.connected), found[-1]).driver

    def is_connected(self, name: str) -> bool:
        """Return whether a driver of that name is connected."""
        return any(each.connected for each in self._drivers.get(name, ()))

    def names(self) -> set[str]:
        """Return the names of the registered drivers."""
        return set(self._drivers)

    def find(self, name: str, endpoint: str) -> RegisteredDriver | None:
        """Return the registration of that endpoint."""
        return next((each for each in self._drivers.get(name, ()) if each.driver.endpoint == endpoint), None)

    def add(self, registered: RegisteredDriver) -> None:
        self._drivers.setdefault(registered.driver.name, []).append(registered)
        self._changed(registered.driver.name)

    def remove(self, name: str, endpoint: str) -> None:
        """Remove a driver; idempotent."""
        found = self.find(name, endpoint)
        if found is None:
            return
        self._drivers[name].remove(found)
        if not self._drivers[name]:
            del self._drivers[name]
        self._changed(name)

    def set_connected(self, registered: RegisteredDriver, connected: bool) -> None:
        if registered.connected != connected:
            registered.connected = connected
            self._changed(registered.driver.name)

    def _changed(self, name: str) -> None:
        for listener in self._listeners:
            listener(name)
