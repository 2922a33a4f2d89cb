"""Base class of controllers, and the components that they use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from apiserver_stub.controllers.event_recorder import EventRecorder
from apiserver_stub.controllers.object_index import ObjectIndex
from apiserver_stub.controllers.object_writer import ObjectWriter
from apiserver_stub.controllers.views import View
from nodeagent.base.release import OLDEST, Release
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from apiserver_stub.controllers.autoscaling.metrics import MetricsClient
    from apiserver_stub.controllers.leadership import Leadership
    from apiserver_stub.kinds.registry import Registry
    from apiserver_stub.verbs.context import VerbContext
    from nodeagent.base.aio import Clock
    from nodeagent.base.gates import FeatureGates
    from nodeagent.base.identity import Identity


class ControllerContext(Struct, frozen=True):
    """Components of the server that controllers use."""

    verbs: VerbContext
    registry: Registry
    identity: Identity
    gates: FeatureGates
    index: ObjectIndex
    """Views of the objects of all controllers' collections."""
    leadership: Leadership
    clock: Clock
    event_ttl_seconds: int | None = None
    release: Release = OLDEST
    """Kubernetes release whose API the server has."""
    metrics: MetricsClient | None = None
    """Reader of metrics, if the server can connect to node agents."""

    def writer(self, controller: str) -> ObjectWriter:
        """Return the writer of *controller*."""
        return ObjectWriter(self.verbs, self.registry, self.identity, controller)

    def events(self, controller: str) -> EventRecorder:
        """Return a recorder of the events of *controller*."""
        return EventRecorder(self.verbs.store, controller, self.event_ttl_seconds, self.identity, self.clock)


class Controller:
    """A controller that ``--controllers`` enables and disables by its name."""

    name: ClassVar[str] = ""
    """Name in ``--controllers``, that of kube-controller-manager."""
    alias: ClassVar[str] = ""
    """Name of older releases of kube-controller-manager, which ``--controllers`` accepts too."""
    enabled_by_default: ClassVar[bool] = True
    resources: ClassVar[tuple[str, ...]] = ()
    """Resources (``plural.group``) without which the controller does not run, because they are not served."""
    views: ClassVar[Mapping[str, type[View]]] = {}
    """Collections that the controller reads from the index, and the types of their views."""

    def __init__(self, context: ControllerContext) -> None:
        self.context = context

    @classmethod
    def resources_of(cls, identity: Identity) -> Sequence[str]:
        """Return :attr:`resources`, and those whose names depend on *identity*."""
        return cls.resources

    @classmethod
    def views_of(cls, identity: Identity) -> Mapping[str, type[View]]:
        """Return :attr:`views`, and those of collections whose names depend on *identity*."""
        return cls.views

    async def run(self) -> None:
        """Run until cancelled."""
        raise NotImplementedError
