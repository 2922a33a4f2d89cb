"""Conversion plans: readers and setters of the fields of a message, computed once per message type.

A reader maps field descriptors to the JSON name and a converter, so that reading an object visits only the fields
that are present. The fields of a field called ``inline`` are part of the outer object in JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from nodeagent.base.apiproto import special, unrecognized
from nodeagent.base.apiproto.errors import ProtobufError
from nodeagent.base.apiproto.properties import is_union

Reader = Callable[[Any], Any]
"""From a protobuf value to its JSON value; ``None`` if absent."""
Setter = Callable[[Any, Any], None]
"""Sets a field of a message from a JSON value."""
Writer = Callable[[Any, Mapping[str, Any]], None]
"""Fills a message from a JSON object."""

INLINE = "inline"


class Plans:
    """Cache of plans, kept for the lifetime of the process.

    :param keep_unrecognized: readers include unrecognized fields; see :mod:`unrecognized`.
    """

    def __init__(self, *, keep_unrecognized: bool = False) -> None:
        self._keep_unrecognized = keep_unrecognized
        self._readers: dict[str, Reader] = {}
        self._setters: dict[str, dict[str, Setter]] = {}
        self._unions: dict[str, Writer] = {}

    # --- reading ----------------------------------------------------------------------------------------------

    def reader(self, message: Descriptor) -> Reader:
        """Return the reader of *message*."""
        known = self._readers.get(message.full_name)
        if known is not None:
            return known
        if message.full_name in special.BY_NAME:
            return special.BY_NAME[message.full_name].read
        if is_union(message):
            return self._union_reader(message)
        plan, keep = _ReaderPlan(self._field_reader), self._keep_unrecognized

        def read(value: Any) -> dict[str, Any]:
            converted_fields: dict[str, Any] = unrecognized.read_unrecognized(value) if keep else {}
            for field, content in value.ListFields():
                name, convert = plan[field]
                if convert is None:
                    converted_fields[name] = content
                    continue
                converted = convert(content)
                if name == INLINE:
                    converted_fields.update(converted)
                elif converted is not None:
                    converted_fields[name] = converted
            return converted_fields

        self._readers[message.full_name] = read
        return read

    def _union_reader(self, message: Descriptor) -> Reader:
        plan = _ReaderPlan(self._field_reader)
        kind = next(field for field in message.fields if field.message_type is None or field.is_repeated)
        empty: Any = [] if kind.is_repeated else False

        def read(value: Any) -> Any:
            found = empty
            for field, content in value.ListFields():
                # In order of their numbers: a schema takes precedence over the boolean that allows it.
                _, convert = plan[field]
                found = content if convert is None else convert(content)
            return found

        self._readers[message.full_name] = read
        return read

    def _field_reader(self, field: FieldDescriptor) -> Reader | None:
        if (map_value := _map_value(field)) is not None:
            return self._map_reader(map_value)
        one = self._value_reader(field)
        if not field.is_repeated:
            return one
        if one is None:
            return list
        each = one
        return lambda values: [each(value) for value in values]

    def _map_reader(self, value_field: FieldDescriptor) -> Reader:
        one = self._value_reader(value_field)
        if one is None:
            return lambda values: {key: values[key] for key in sorted(values)}
        each = one
        return lambda values: {key: each(values[key]) for key in sorted(values)}

    def _value_reader(self, field: FieldDescriptor) -> Reader | None:
        if field.message_type is not None:
            return self.reader(field.message_type)
        return special.read_bytes if field.type == FieldDescriptor.TYPE_BYTES else None

    # --- writing ----------------------------------------------------------------------------------------------

    def writer(self, message: Descriptor) -> Writer:
        """Return the writer of *message*; fields that the definition does not have are ignored."""
        known = special.BY_NAME.get(message.full_name)
        if known is not None:
            return known.write
        if is_union(message):
            return self._union_writer(message)
        setters = self._setters_of(message)

        def write(target: Any, value: Mapping[str, Any]) -> None:
            name = ""
            try:
                for name, content in value.items():
                    if content is None:
                        continue
                    if (put := setters.get(name)) is not None:
                        put(target, content)
                    elif name.startswith(unrecognized.PREFIX):
                        unrecognized.write_unrecognized(target, content)
            except _FieldValueError as error:
                raise error.inside(name) from error.__cause__
            except (TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
                raise _FieldValueError(name, str(error)) from error

        return write

    def _union_writer(self, message: Descriptor) -> Writer:
        known = self._unions.get(message.full_name)
        if known is not None:
            return known
        setters: dict[type, Setter] = {}

        def write(target: Any, value: Any) -> None:
            put = setters.get(value.__class__)
            if put is None:
                raise TypeError(f"unexpected {type(value).__name__}")
            put(target, value)

        self._unions[message.full_name] = write
        for field in message.fields:
            kind = list if field.is_repeated else dict if field.message_type is not None else bool
            setters[kind] = self._setter(field)
        return write

    def _setters_of(self, message: Descriptor) -> dict[str, Setter]:
        known = self._setters.get(message.full_name)
        if known is not None:
            return known
        setters = self._setters[message.full_name] = {}
        for field in message.fields:
            if field.name == INLINE and field.message_type is not None:
                for name, inner in self._setters_of(field.message_type).items():
                    setters[name] = _through_inline(inner)
            else:
                setters[field.json_name] = self._setter(field)
        return setters

    def _setter(self, field: FieldDescriptor) -> Setter:
        if (map_value := _map_value(field)) is not None:
            return self._map_setter(field.name, map_value)
        if field.message_type is not None:
            return _message_setter(field, partial(self.writer, field.message_type))
        convert = special.write_bytes if field.type == FieldDescriptor.TYPE_BYTES else None
        return _scalar_setter(field, convert)

    def _map_setter(self, name: str, value_field: FieldDescriptor) -> Setter:
        if (message := value_field.message_type) is not None:
            write: Writer | None = None

            def put_messages(target: Any, values: Any) -> None:
                nonlocal write
                if write is None:
                    write = self.writer(message)
                container = getattr(target, name)
                for key, value in values.items():
                    write(container[key], value)

            return put_messages
        is_bytes = value_field.type == FieldDescriptor.TYPE_BYTES

        def put_scalars(target: Any, values: Any) -> None:
            container = getattr(target, name)
            for key, value in values.items():
                container[key] = special.write_bytes(value) if is_bytes else value

        return put_scalars


class _ReaderPlan(dict[FieldDescriptor, tuple[str, Reader | None]]):
    """JSON name and converter of the fields that objects had so far: most objects have few of the possible fields."""

    def __init__(self, reader: Callable[[FieldDescriptor], Reader | None]) -> None:
        super().__init__()
        self._reader = reader

    def __missing__(self, field: FieldDescriptor) -> tuple[str, Reader | None]:
        found = self[field] = (field.json_name, self._reader(field))
        return found


class _FieldValueError(ProtobufError):
    """Invalid value of a field, with the path to the field."""

    def __init__(self, path: str, cause: str) -> None:
        super().__init__(f"{path}: {cause}")
        self._path, self._cause = path, cause

    def inside(self, name: str) -> _FieldValueError:
        """Return the same error with the path relative to the enclosing object."""
        return _FieldValueError(f"{name}.{self._path}" if self._path else name, self._cause)


def _message_setter(field: FieldDescriptor, writer: Callable[[], Writer]) -> Setter:
    """Return a setter that calls *writer* once an object has the field, as most objects have few of the fields."""
    name = field.name
    write: Writer | None = None

    def put_each(target: Any, values: Any) -> None:
        nonlocal write
        if write is None:
            write = writer()
        _require_list(values)
        add = getattr(target, name).add
        for value in values:
            write(add(), value)

    def put_one(target: Any, value: Any) -> None:
        nonlocal write
        if write is None:
            write = writer()
        inner = getattr(target, name)
        inner.SetInParent()  # An empty object differs from an absent one.
        write(inner, value)

    return put_each if field.is_repeated else put_one


def _scalar_setter(field: FieldDescriptor, convert: Callable[[Any], Any] | None) -> Setter:
    name = field.name

    def put_each(target: Any, values: Any) -> None:
        _require_list(values)
        getattr(target, name).extend(map(convert, values) if convert else values)

    def put_one(target: Any, value: Any) -> None:
        setattr(target, name, convert(value) if convert else value)

    return put_each if field.is_repeated else put_one


def _require_list(values: Any) -> None:
    if not isinstance(values, list | tuple):  # A string would be accepted as a list of its characters.
        raise TypeError(f"expected a list, not {type(values).__name__}")


def _through_inline(inner: Setter) -> Setter:
    def put(target: Any, value: Any) -> None:
        inner(getattr(target, INLINE), value)

    return put


def _map_value(field: FieldDescriptor) -> FieldDescriptor | None:
    """Return the field of a map's values, or ``None`` if *field* is not a map."""
    entry = field.message_type
    return entry.fields_by_name["value"] if entry is not None and entry.GetOptions().map_entry else None
