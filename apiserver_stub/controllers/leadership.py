"""Leadership of the bundled controllers: they step down while an external kube-controller-manager holds its lease."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.controllers.leases import CONTROLLER_MANAGER, is_held

if TYPE_CHECKING:
    from apiserver_stub.storage import Store
    from nodeagent.base.aio import Clock
    from nodeagent.base.identity import Identity

_CHECK_SECONDS = 5.0


class Leadership:
    """Right of the controllers of this server to change objects."""

    def __init__(self, store: Store, identity: Identity, clock: Clock) -> None:
        self._store, self._identity, self._clock = store, identity, clock

    @property
    def active(self) -> bool:
        """``True`` unless another component has to change the objects."""
        return not is_held(self._store, CONTROLLER_MANAGER, self._clock.wall(), self._identity)

    async def acquired(self) -> None:
        """Wait until the controllers of this server are active."""
        while not self.active:
            await self._clock.sleep(_CHECK_SECONDS)
