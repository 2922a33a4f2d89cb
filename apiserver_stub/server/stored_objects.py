"""Completion of objects that were stored as protobuf, which omits nulls, and by kube-apiserver without defaults."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from apiserver_stub.schema.null_times import OMITTED_SINCE

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.objects import Object
    from apiserver_stub.kinds import Resource
    from apiserver_stub.options import Options


class StoredObjects:
    """Objects of *resources* in the form in which a write request would have stored them."""

    def __init__(self, options: Options, resources: Iterable[Resource]) -> None:
        self._domain = options.identity.api_domain
        self._shows_null_times = options.compatibility_version < OMITTED_SINCE
        self._resources = {(item.api_version, item.kind): item for item in resources if "get" in item.verbs}

    def complete(self, obj: Object) -> None:
        """Add the default values and the fields that are always present, in place.

        :raises SchemaMismatch: a value has the wrong type.
        """
        resource = self._resources.get((obj["apiVersion"], obj["kind"]))
        schema = resource.schema_in(self._domain) if resource is not None else None
        if resource is None or schema is None:
            return
        schema.check(obj)
        resource.strategy.default(obj)
        if not self._shows_null_times:
            schema.omit_null_times(obj)
