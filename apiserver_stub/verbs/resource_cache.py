"""Cache of properties of resources, as long as these are served. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from apiserver_stub.kinds.registry import Resource

P = ParamSpec("P")
R = TypeVar("R")


def resource_cache(function: Callable[Concatenate[Resource, P], R]) -> Callable[Concatenate[Resource, P], R]:
    """Cache the results of *function*, which must not refer to the resource.

    Each change of a custom resource definition replaces its resources, so a cache that refers to them would retain
    their schemas.
    """
    found: WeakKeyDictionary[Resource, dict[tuple[object, ...], R]] = WeakKeyDictionary()

    @wraps(function)
    def call(resource: Resource, /, *arguments: P.args, **named: P.kwargs) -> R:
        results = found.get(resource)
        if results is None:
            results = found[resource] = {}
        key = (*arguments, *named.values())
        try:
            return results[key]
        except KeyError:
            result = results[key] = function(resource, *arguments, **named)
            return result

    return call
