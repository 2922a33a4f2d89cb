"""Schemas of custom kinds for the verbs. No I/O."""

from __future__ import annotations

from apiserver_stub.apimachinery.go_format import go_literal
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import quote
from apiserver_stub.schema.field_validation import Findings, SchemaMismatch, count_members
from apiserver_stub.schema.shapes import Shape
from apiserver_stub.schema.structural.embedded import EmbeddedMismatch, check_metadata, coerce
from apiserver_stub.schema.structural.pruning import prune
from apiserver_stub.schema.structural.shape import shape_of
from apiserver_stub.schema.structural.tree import Node


class StructuralSchema:
    """Schema of one version of a custom kind.

    Types other than those of metadata are validated with the values, after defaults are set.
    """

    def __init__(self, kind: str, tree: Node, *, prunes: bool = True) -> None:
        self._kind, self.tree, self._prunes = kind, tree, prunes
        self._shape: Shape | None = None

    is_open = True

    @property
    def source(self) -> Object:
        return self.tree.source

    @property
    def shape(self) -> Shape:
        if self._shape is None:
            self._shape = shape_of(self.tree, self._kind)
        return self._shape

    def check(self, obj: Object, *, converts: bool = False) -> Findings:
        if obj.get("metadata", "") is None:
            obj["metadata"] = {}
        found = Findings(converts=converts)
        found.members = count_members(obj)
        if "metadata" in obj:
            found.unknown += check_metadata(obj["metadata"], converts=converts).unknown
        if self._prunes:
            found.unknown += prune(obj, self.tree, keeps_nulls=converts)
        if self.tree.has_resources:
            try:
                found.unknown += coerce(obj, self.tree)
            except EmbeddedMismatch as error:
                value = quote(error.value) if isinstance(error.value, str) else go_literal(error.value)
                raise SchemaMismatch(f"{error.path}: Invalid value: {value}: {error.detail}") from None
        return found

    def settle(self, obj: Object) -> None:
        """Change nothing: the stored form of custom resources is the served one."""

    def omit_null_times(self, obj: Object) -> None:
        metadata = obj.get("metadata") or {}
        if metadata.get("creationTimestamp", "") is None:
            del metadata["creationTimestamp"]
