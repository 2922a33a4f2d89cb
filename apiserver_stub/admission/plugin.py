"""Base class of admission plugins."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, ClassVar, Self

from apiserver_stub.apimachinery.status import qualified
from apiserver_stub.verbs.admission import AdmissionRequest, Operation

if TYPE_CHECKING:
    from apiserver_stub.admission.context import AdmissionContext
    from apiserver_stub.kinds.registry import Resource


class AdmissionPlugin:
    """An admission plugin: declares the requests that it handles, mutates new objects and rejects requests.

    A plugin that can be enabled and disabled by name declares ``name``, ``order`` and ``enabled_by_default``.
    """

    name: ClassVar[str] = ""
    """The name in ``--enable-admission-plugins`` and in the configuration file; unique."""
    order: ClassVar[int]
    """Position in the chain: plugins are called by ascending order, then by name.

    Bundled plugins have the multiples of 100 from 100 to 3600, in upstream's order.
    """
    enabled_by_default: ClassVar[bool]
    """Default state: enabled unless ``--disable-admission-plugins`` names the plugin."""
    feature_gate: ClassVar[str] = ""
    """Feature gate that the plugin requires; a plugin that is enabled by default is not created without it."""
    deprecated: ClassVar[bool] = False
    """Deprecation: a warning is logged when the plugin is enabled explicitly."""
    resources: Collection[str] | None = None
    """Handled resources: ``plural.group`` or ``plural.group/subresource``; ``None`` for all resources.

    A resource of the core group is its ``plural`` only. Set it in the constructor if it depends on the API domain.
    """
    operations: Collection[str] = ("CREATE", "UPDATE")
    """Handled operations, of ``CREATE``, ``UPDATE``, ``DELETE`` and ``CONNECT``."""

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        """Create the plugin; called once, while the server starts.

        :raises AdmissionError: its configuration is invalid.
        """
        return cls()

    def concerns(self, resource: Resource, operation: Operation, subresource: str) -> bool:
        """Return whether the plugin is called for such requests; the result is cached."""
        if operation not in self.operations:
            return False
        if self.resources is None:
            return True
        label = qualified(resource.plural, resource.group)
        return (f"{label}/{subresource}" if subresource else label) in self.resources

    async def admit(self, call: AdmissionRequest) -> None:
        """Mutate ``call.new`` before the kind's own validation, or reject the request.

        :raises ApiError: the request is rejected.
        """

    async def validate(self, call: AdmissionRequest) -> None:
        """Validate the object after the kind's own validation; it must not be modified.

        :raises ApiError: the request is rejected.
        """
