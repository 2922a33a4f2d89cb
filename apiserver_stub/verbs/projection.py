"""Projections: subresources whose requests and responses have another kind than the stored object, such as Scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from apiserver_stub.kinds.registry import Resource


class Projection(Struct, frozen=True):
    """The kind of the requests and responses of a subresource, and its relation to the stored object."""

    resource: Resource
    """Kind of the requests and responses, which has the names of the stored kind in errors."""
    read: Callable[[Object], Object]
    """Return the projection of a stored object."""
    write: Callable[[Object, Object], Object]
    """Return the stored object (second argument) with the values of a projection; the arguments are not changed.

    :raises ApiError: the projection is invalid.
    """
    configure: Callable[[Object], Object]
    """Return the applied configuration of the stored object for an applied configuration of a projection."""
