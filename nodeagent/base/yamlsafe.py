"""Safe YAML and JSON parser for untrusted input: plain values, within limits.

The result has only JSON types: objects with string keys, arrays, strings, numbers, booleans and null. Dates remain
strings; tags for other types are rejected, and so are duplicate keys unless the caller collects them. Size, depth and
the number of values after expanding aliases are limited, so that a small text cannot expand to a huge value.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from msgspec import field

from nodeagent.base.structs import MutableStruct, Struct

Path = tuple[str | int, ...]

_PREFIX = "tag:yaml.org,2002:"
_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_TRUE = frozenset(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"))
_FALSE = frozenset(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"))
_INT = re.compile(r"[-+]?(0b[01_]+|0o?[0-7_]*|0x[0-9a-fA-F_]+|[1-9][0-9_]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_MAX_NUMBER = 400
"""Numbers with more digits are rejected, because their conversion is too expensive."""


class Limits(Struct, frozen=True):
    """Limits of one document."""

    max_bytes: int = 3 * 1024 * 1024
    max_depth: int = 100
    max_values: int = 500_000
    """Scalars, arrays and objects after expanding aliases."""


class YamlError(ValueError):
    """The text is not valid YAML or JSON; *line* starts at 1 and is 0 if the position is unknown."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(f"line {line}: {message}" if line else message)
        self.line = line


class Repeat(NamedTuple):
    """Duplicate key of an object; *line* is 0 for JSON that is not YAML."""

    line: int
    key: str


class Document(MutableStruct):
    """Parsed document: its value, and the line of every value by path."""

    value: Any = None
    lines: dict[Path, int] = field(default_factory=dict)


def load(text: str | bytes, limits: Limits | None = None, *, repeats: list[Repeat] | None = None) -> Any:
    """Return the value of the single document in *text*.

    :param repeats: receives the duplicate keys, the last of which is then effective.
    :raises YamlError: it is not exactly one valid document.
    """
    return _single(_documents(text, limits, repeats)).value


def load_document(text: str | bytes, limits: Limits | None = None, *, repeats: list[Repeat] | None = None) -> Document:
    """Return the single document in *text* with its lines; raises :class:`YamlError` like :func:`load`."""
    return _single(_documents(text, limits, repeats, lines=True))


def load_documents(
    text: str | bytes, limits: Limits | None = None, *, repeats: list[Repeat] | None = None
) -> list[Document]:
    """Return every document in *text*; documents without content are omitted.

    :param repeats: as for :func:`load`.
    :raises YamlError: the text is invalid.
    """
    documents = _documents(text, limits, repeats, lines=True)
    return [document for document in documents if document.value is not None]


def load_first(text: str | bytes, limits: Limits | None = None, *, repeats: list[Repeat] | None = None) -> Any:
    """Return the value of the first document in *text*, ``None`` without any; the rest is not parsed.

    :param repeats: as for :func:`load`.
    :raises YamlError: the document is invalid.
    """
    documents = _documents(text, limits, repeats, count=1)
    return documents[0].value if documents else None


def _single(documents: list[Document]) -> Document:
    found = [document for document in documents if document.value is not None]
    if len(found) != 1:
        raise YamlError("is empty" if not found else f"has {len(found)} documents, must have one")
    return found[0]


def _documents(
    text: str | bytes,
    limits: Limits | None,
    repeats: list[Repeat] | None,
    *,
    count: int | None = None,
    lines: bool = False,
) -> list[Document]:
    """Return the first *count* documents in *text*, all of them without a count.

    :param lines: record the lines, which for deep documents take far more memory than the values.
    """
    limits = limits or Limits()
    decoded = _decode(text, limits)
    try:
        return list(islice(_Builder(decoded, limits, repeats, lines=lines).documents(), count))
    except YamlError as error:
        if decoded.lstrip()[:1] not in ("{", "["):
            raise
        if repeats is not None:
            repeats.clear()
        try:  # JSON is a subset of YAML except for escaped surrogate pairs.
            document = _load_json(decoded, limits, repeats)
            json.dumps(document.value, ensure_ascii=False).encode()
        except (json.JSONDecodeError, UnicodeEncodeError):  # The latter: a surrogate without its pair.
            raise error from None
        return [document]


def _decode(text: str | bytes, limits: Limits) -> str:
    if len(text) > limits.max_bytes:
        raise YamlError(f"is larger than {limits.max_bytes} bytes")
    if isinstance(text, str):
        return text
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise YamlError(f"is not UTF-8 text (byte {error.start})") from error


class _Open(MutableStruct):
    """Collection whose end event has not been read."""

    value: Any
    path: Path
    line: int
    anchor: str | None
    size: int = 1
    key: Any = None
    has_key: bool = False
    merges: bool = False
    """The key is ``<<`` without quotes: the value is merged."""
    merged: list[Any] = field(default_factory=list)


class _Builder:
    """Builder of values from the parser's events, with an explicit stack instead of recursion."""

    def __init__(self, text: str, limits: Limits, repeats: list[Repeat] | None, *, lines: bool) -> None:
        import yaml  # Deferred: an API server with clients that send JSON and protobuf does not need it.

        self._yaml: Any = yaml
        # Without libyaml, PyYAML is slower and has the same rules.
        self._loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        self._text, self._limits, self._repeats, self._lines = text, limits, repeats, lines
        self._stack: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._values = 0
        self._document = Document()

    def documents(self) -> Iterator[Document]:
        loader, yaml = None, self._yaml
        try:
            loader = self._loader(self._text)
            while loader.check_event():
                event = loader.get_event()
                if isinstance(event, yaml.DocumentEndEvent):
                    yield self._document
                    self._document, self._anchors = Document(), {}
                else:
                    self._take(event)
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 0
            raise YamlError(error.problem or "is not YAML", line) from error
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            if isinstance(error, YamlError):
                raise
            raise YamlError(str(error).splitlines()[0] if str(error) else "is not YAML") from error
        finally:
            if loader is not None:
                loader.dispose()

    def _take(self, event: Any) -> None:
        line, yaml = event.start_mark.line + 1, self._yaml
        match event:
            case yaml.ScalarEvent():
                value = _scalar(event, line)
                if event.anchor:
                    self._anchors[event.anchor] = (value, 1)
                self._add(value, 1, line, merges=value == "<<" and event.tag is None and event.implicit[0])
            case yaml.MappingStartEvent():
                self._open({}, event, line, "map")
            case yaml.SequenceStartEvent():
                self._open([], event, line, "seq")
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._close()
            case yaml.AliasEvent():
                if event.anchor not in self._anchors:
                    raise YamlError(f"alias *{event.anchor} is undefined", line)
                self._add(*self._anchors[event.anchor], line)

    def _open(self, value: Any, event: Any, line: int, kind: str) -> None:
        if event.tag not in (None, "!", _PREFIX + kind):
            raise YamlError(f"tag {event.tag} is not allowed", line)
        if len(self._stack) >= self._limits.max_depth:
            raise YamlError(f"is nested deeper than {self._limits.max_depth} levels", line)
        if self._stack and isinstance(self._stack[-1].value, dict) and not self._stack[-1].has_key:
            raise YamlError("a key must be a string", line)
        self._count(1, line)
        self._stack.append(_Open(value, self._next_path(), line, event.anchor))

    def _close(self) -> None:
        done = self._stack.pop()
        if isinstance(done.value, dict):
            for other in done.merged:
                for key, value in other.items():
                    done.value.setdefault(key, value)
        if done.anchor:
            self._anchors[done.anchor] = (done.value, done.size)
        self._attach(done.value, done.size, done.line)

    def _add(self, value: Any, size: int, line: int, *, merges: bool = False) -> None:
        self._count(size, line)
        self._attach(value, size, line, merges=merges)

    def _attach(self, value: Any, size: int, line: int, *, merges: bool = False) -> None:
        """Add a finished value to the enclosing collection."""
        if not self._stack:
            self._document.value = value
            self._record_line(line)
            return
        parent = self._stack[-1]
        if isinstance(parent.value, list):
            self._record_line(line)
            parent.value.append(value)
        elif not parent.has_key:
            parent.key, parent.has_key, parent.merges = _key(value, line), True, merges
            if parent.key in parent.value:
                _record(Repeat(line, parent.key), self._repeats)
        elif parent.merges:
            parent.merged.extend(_mergeable(value, line))
            parent.has_key = False
        else:
            self._record_line(line)
            parent.value[parent.key] = value
            parent.has_key = False
        parent.size += size

    def _record_line(self, line: int) -> None:
        """Record the line of the next value."""
        if self._lines:
            self._document.lines[self._next_path()] = line

    def _next_path(self) -> Path:
        """Return the path of the next value; empty unless lines are recorded."""
        if not self._stack or not self._lines:
            return ()
        parent = self._stack[-1]
        return (*parent.path, len(parent.value) if isinstance(parent.value, list) else parent.key)

    def _count(self, values: int, line: int) -> None:
        self._values += values
        if self._values > self._limits.max_values:
            raise YamlError(f"has more than {self._limits.max_values} values", line)


def _mergeable(value: Any, line: int) -> list[Any]:
    sources = value if isinstance(value, list) else [value]
    if not all(isinstance(source, dict) for source in sources):
        raise YamlError("'<<' must be an object or an array of objects", line)
    return sources


def _key(value: Any, line: int) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise YamlError("a key must be a string", line)


def _scalar(event: Any, line: int) -> Any:
    text: str = event.value
    tag = event.tag
    if tag in (None, "!"):
        return _plain(text, line) if event.implicit[0] and tag is None else text
    kind = tag.removeprefix(_PREFIX)
    if kind == "str":
        return text
    value = _plain(text, line)
    expected = {"int": int, "bool": bool, "null": type(None), "float": float}.get(kind)
    if expected is float and type(value) is int:
        return float(value)
    if expected is None or type(value) is not expected:
        raise YamlError(f"tag {tag} is not allowed here", line)
    return value


def _plain(text: str, line: int) -> Any:
    """Convert an unquoted scalar: null, boolean, number, else string."""
    if text in _NULL:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if text[0] not in "+-.0123456789":
        return text
    if len(text) > _MAX_NUMBER and (_INT.fullmatch(text) or _FLOAT.fullmatch(text)):
        raise YamlError("a number has too many digits", line)
    if _INT.fullmatch(text):
        return _int(text)
    if _FLOAT.fullmatch(text):
        number = float(text)
        if math.isinf(number):
            raise YamlError(f"{text} is too large a number", line)
        return number
    return text


def _int(text: str) -> int | str:
    sign, digits = (-1, text[1:]) if text[0] == "-" else (1, text.lstrip("+"))
    digits = digits.replace("_", "")
    if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
        digits = "0o" + digits[1:]  # A leading zero means octal, as in file modes.
    try:
        return sign * int(digits, 0)
    except ValueError:
        return text


def _record(repeat: Repeat, repeats: list[Repeat] | None) -> None:
    if repeats is None:
        raise YamlError(f"duplicate key {repeat.key!r} in an object", repeat.line)
    repeats.append(repeat)


def _load_json(text: str, limits: Limits, repeats: list[Repeat] | None) -> Document:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) != len(pairs):
            counts = Counter(key for key, _ in pairs)
            _record(Repeat(0, next(key for key, count in counts.items() if count > 1)), repeats)
        return value

    def reject_constant(name: str) -> Any:
        raise YamlError(f"{name} is not a JSON number")

    try:
        value = json.loads(text, object_pairs_hook=unique, parse_constant=reject_constant)
    except RecursionError:
        raise YamlError(f"is nested deeper than {limits.max_depth} levels") from None
    except (YamlError, json.JSONDecodeError):
        raise
    except ValueError as error:
        raise YamlError(str(error)) from error
    _check_extent(value, limits)
    return Document(value, {(): 1})


def _check_extent(value: Any, limits: Limits) -> None:
    """Apply the limits of YAML to a value.

    :raises YamlError: it is nested too deep, or has too many values.
    """
    values, depth, level = 1, 0, [value]
    while collections := [item for item in level if isinstance(item, dict | list)]:
        depth += 1
        if depth > limits.max_depth:
            raise YamlError(f"is nested deeper than {limits.max_depth} levels")
        level = []
        for item in collections:
            level += item.values() if isinstance(item, dict) else item
            values += len(item) * (2 if isinstance(item, dict) else 1)  # Keys count, too.
    if values > limits.max_values:
        raise YamlError(f"has more than {limits.max_values} values")
