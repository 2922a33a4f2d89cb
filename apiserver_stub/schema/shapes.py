"""Schemas of the kinds: fields, types and list merging, derived from the protobuf definitions.

Field validation, field ownership and the OpenAPI documents use these shapes. The shape of a kind is created when it is
first used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any

from nodeagent.base import apiproto
from nodeagent.base.apiproto import FieldProperties, Presence

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor


class Form(Enum):
    """Type of a JSON value; the enum value is the name of the type in messages."""

    OBJECT = "object"
    MAP = "map"
    LIST = "list"
    TEXT = "string"
    BYTES = "[]uint8"
    TIME = "v1.Time"
    MICRO_TIME = "v1.MicroTime"
    QUANTITY = "resource.Quantity"
    INT_OR_TEXT = "intstr.IntOrString"
    INT32 = "int32"
    INT64 = "int64"
    BOOL = "bool"
    FLOAT = "float64"
    ANY = "interface {}"
    UNION = "union"
    DEDUCED = "deduced"
    """Any value; the fields of objects have separate owners, as they have no schema."""


_ZEROS: Mapping[Form, Any] = {
    Form.OBJECT: {},
    Form.TEXT: "",
    Form.QUANTITY: "0",
    Form.INT_OR_TEXT: 0,
    Form.INT32: 0,
    Form.INT64: 0,
    Form.BOOL: False,
    Form.FLOAT: 0,
}


@dataclass(slots=True, eq=False)
class Shape:
    """Schema of a value in an object."""

    form: Form
    name: str = ""
    """Protobuf message of an object, without its package."""
    package: str = ""
    """Package of the definition of an object: ``core``, ``meta``."""
    version: str = ""
    full_name: str = ""
    """Full name of the message of an object."""
    members: dict[str, Shape] = field(default_factory=dict)
    """Fields of an object, or the alternatives of a union by their forms."""
    item: Shape | None = None
    """Schema of the values of a map or the items of a list."""
    other: Shape | None = None
    """Schema of the fields of an object that are not *members*; ``None`` if it has no other fields."""
    key_defaults: Mapping[str, Any] = field(default_factory=dict)
    """Default values of the key fields of a list."""
    keys: tuple[str, ...] = ()
    """Key fields of the items of a list that merges; empty for other lists."""
    is_set: bool = False
    """``True`` for a list of distinct scalars that merges."""
    atomic: bool = False
    """``True`` for a value that has one owner and is replaced completely."""
    granular: bool = False
    """``True`` for a field whose fields have separate owners even if its type is atomic."""
    patch_strategy: str = ""
    """Patch strategy of the field in strategic merge patches; a list without one is replaced."""
    patch_merge_key: str = ""
    """Field by which strategic merge patches match the items of the list."""
    replaced: frozenset[str] = frozenset()
    """Fields with objects that strategic merge patches replace."""
    exact: bool = False
    """``True`` if the quantities of a map are exact; others are rounded up to thousandths."""
    tracked: frozenset[str] = frozenset()
    """Scalar fields whose zero value differs from an absent one."""
    releases: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """First minor release with a field and first one without it, 0 for neither; of fields that some lack."""
    always: Mapping[str, Any] = field(default_factory=dict)
    """Fields that are always present, with their zero values; objects have an empty one here."""

    leaf: bool = field(init=False)
    """``True`` if the value has one owner: scalars, atomic objects and maps, lists that do not merge."""

    def __post_init__(self) -> None:
        if self.form is Form.LIST:
            self.leaf = not self.keys and not self.is_set
        else:
            self.leaf = (self.atomic and not self.granular) or self.form not in (Form.OBJECT, Form.MAP)

    def child(self, name: str) -> Shape:
        """Return the shape of field *name*, :data:`UNKNOWN` for an unknown field."""
        if self.form is Form.OBJECT:
            return self.members.get(name) or self.other or UNKNOWN
        return self.item or UNKNOWN

    def resolved(self, *values: Any) -> Shape:
        """Return the shape for *values*, which depends on them only without a schema."""
        if self.form is not Form.DEDUCED:
            return self
        return _DEDUCED_MAP if all(value.__class__ is dict for value in values) else UNKNOWN

    def members_at(self, minor: int | None) -> Mapping[str, Shape]:
        """Return the fields that minor release *minor* has, all fields for ``None``."""
        if minor is None or not self.releases:
            return self.members
        return {name: member for name, member in self.members.items() if self._exists(name, minor)}

    def _exists(self, name: str, minor: int) -> bool:
        since, until = self.releases.get(name, (0, 0))
        return since <= minor and (not until or minor < until)

    def key_default(self, name: str) -> Any:
        """Return the default value of field *name* as a list key, ``None`` for a field without one."""
        return self.always.get(name, _KEY_DEFAULTS.get((self.name, name)))

    def blank(self) -> dict[str, Any]:
        """Return an object without set fields: those that are always present, with their zero values."""
        return {name: self.members[name].blank() if value == {} else value for name, value in self.always.items()}

    def zero(self) -> Any:
        """Return the JSON form of the zero value; objects are empty, to be completed by :meth:`blank`."""
        return _ZEROS.get(self.form)


@cache
def plain(form: Form) -> Shape:
    """Return the shape of values of *form* without further properties, one for all fields; it must not be changed."""
    return Shape(form)


UNKNOWN = plain(Form.ANY)
DEDUCED = Shape(Form.DEDUCED)
_DEDUCED_MAP = Shape(Form.MAP, item=DEDUCED)

_KEY_DEFAULTS: Mapping[tuple[str, str], str] = {
    ("ContainerPort", "protocol"): "TCP",
    ("ServicePort", "protocol"): "TCP",
    ("LocalObjectReference", "name"): "",
    ("HostAlias", "ip"): "",
    ("PodIP", "ip"): "",
}
"""Default values of optional list keys, by message and field; keys that are always present default to zero values."""

_SPECIAL: Mapping[str, Form] = {
    "Time": Form.TIME,
    "MicroTime": Form.MICRO_TIME,
    "Quantity": Form.QUANTITY,
    "IntOrString": Form.INT_OR_TEXT,
    "FieldsV1": Form.ANY,
    "RawExtension": Form.ANY,
    "JSON": Form.ANY,
}
_INLINE = "inline"
_ALIASES = ("ExtraValue", "Verbs")
"""Messages whose JSON form is a list of texts."""


def of(api_version: str, kind: str, api_domain: str) -> Shape | None:
    """Return the shape of *kind*, including ``kind`` and ``apiVersion``; ``None`` if it has no definition.

    :param api_domain: domain of API groups.
    """
    # Not cached by the names, which clients choose.
    descriptor = apiproto.descriptor(api_version, kind, api_domain)
    return None if descriptor is None else _with_type(descriptor)


@cache
def _with_type(descriptor: Descriptor) -> Shape:
    """Return the shape of a message with the fields ``kind`` and ``apiVersion``."""
    shape, text = _object(descriptor), plain(Form.TEXT)
    return replace(shape, members={"kind": text, "apiVersion": text, **shape.members})


def walk(shape: Shape, minor: int | None = None) -> Iterator[Shape]:
    """Yield *shape* and every object below it, each once.

    :param minor: minor release whose fields are followed; by default those of all releases.
    """
    seen: set[int] = set()
    rest = [shape]
    while rest:
        current = rest.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if current.form is Form.OBJECT:
            yield current
        rest += current.members_at(minor).values()
        if current.item is not None:
            rest.append(current.item)


_objects: dict[str, Shape] = {}


def _object(message: Descriptor) -> Shape:
    known = _objects.get(message.full_name)
    if known is not None:
        return known
    *_, package, version, name = message.full_name.split(".")
    if apiproto.is_union(message):
        shape = _objects[message.full_name] = Shape(Form.UNION, name, package, version, message.full_name)
        for member in message.fields:
            alternative = _member(member, apiproto.field_properties(member))
            shape.members[alternative.form.value] = alternative
        return shape
    shape = Shape(Form.OBJECT, name, package, version, message.full_name, atomic=apiproto.is_atomic(message))
    _objects[message.full_name] = shape  # Before its fields, as definitions may be recursive.
    fields = {label: (member, apiproto.field_properties(member)) for label, member in _fields(message)}
    shape.members.update((label, _member(member, properties)) for label, (member, properties) in fields.items())
    shape.releases = {
        label: (properties.since, properties.until)
        for label, (_, properties) in fields.items()
        if properties.since or properties.until
    }
    shape.replaced = frozenset(
        label for label, (_, properties) in fields.items() if properties.patch_strategy == "replace"
    )
    shape.tracked = frozenset(
        label for label, (member, _) in fields.items() if member.has_presence and member.message_type is None
    )
    shape.always = {
        label: None if properties.presence is Presence.NULL else shape.members[label].zero()
        for label, (_, properties) in fields.items()
        if properties.presence is not Presence.OPTIONAL
    }
    return shape


def _fields(message: Descriptor) -> Iterator[tuple[str, FieldDescriptor]]:
    """Yield the fields of the JSON form, with those of inlined messages."""
    for member in message.fields:
        if member.name == _INLINE and member.message_type is not None:
            yield from _fields(member.message_type)
        else:
            yield member.json_name, member


def _member(member: FieldDescriptor, properties: FieldProperties) -> Shape:
    message = member.message_type
    if message is not None and message.GetOptions().map_entry:
        item = _value(message.fields_by_name["value"])
        kind = properties.map_type
        return Shape(Form.MAP, item=item, atomic=kind == "atomic", granular=kind == "granular", exact=properties.exact)
    value = _value(member)
    if not member.is_repeated:
        granular = properties.map_type == "granular"
        if not granular and not properties.patch_strategy:
            return value
        return replace(value, granular=granular, patch_strategy=properties.patch_strategy)
    return Shape(
        Form.LIST,
        item=value,
        keys=properties.list_map_keys,
        is_set=properties.list_type == "set",
        patch_strategy=properties.patch_strategy,
        patch_merge_key=properties.patch_merge_key,
    )


def _value(member: FieldDescriptor) -> Shape:
    message: Any = member.message_type
    if message is not None:
        if message.name in _ALIASES:
            return Shape(Form.LIST, item=plain(Form.TEXT))
        special = _SPECIAL.get(message.name)
        if special is not None:
            if special is not Form.ANY:
                return plain(special)
            *_, package, version, name = message.full_name.split(".")
            return Shape(special, name, package, version, message.full_name)
        # Items of lists have the type of the list, those of other fields have their own.
        embedded = apiproto.is_kind(message) and not apiproto.is_kind(_owner(member))
        return _with_type(message) if embedded else _object(message)
    return plain(_scalars()[member.type])


def _owner(member: FieldDescriptor) -> Any:
    """Return the message of *member*."""
    return member.containing_type


@cache
def _scalars() -> dict[int, Form]:
    from google.protobuf.descriptor import FieldDescriptor

    return {
        FieldDescriptor.TYPE_STRING: Form.TEXT,
        FieldDescriptor.TYPE_BYTES: Form.BYTES,
        FieldDescriptor.TYPE_INT32: Form.INT32,
        FieldDescriptor.TYPE_INT64: Form.INT64,
        FieldDescriptor.TYPE_BOOL: Form.BOOL,
        FieldDescriptor.TYPE_DOUBLE: Form.FLOAT,
        FieldDescriptor.TYPE_FLOAT: Form.FLOAT,
    }
