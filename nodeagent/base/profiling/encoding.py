"""Encoder for gzipped ``profile.proto`` messages, the format of ``go tool pprof`` and speedscope.

Few fields are needed, so the message is encoded without generated code. Stacks start with the innermost frame.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping, Sequence
from types import CodeType, FrameType

from nodeagent.base.apiproto.framing import field, varint
from nodeagent.base.structs import Struct

MAX_DEPTH = 128


class Frame(Struct, frozen=True):
    """Source location of a call."""

    function: str
    file: str
    line: int


Stack = tuple[Frame, ...]


class ValueType(Struct, frozen=True):
    """Quantity and unit of a sample value."""

    type: str
    unit: str


def stack_of(frame: FrameType | None) -> Stack:
    """Return the stack of *frame*, innermost frame first."""
    found: list[Frame] = []
    while frame is not None and len(found) < MAX_DEPTH:
        found.append(frame_of(frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return tuple(found)


def frame_of(code: CodeType, line: int | None) -> Frame:
    return Frame(code.co_qualname, code.co_filename, line or code.co_firstlineno)


def encode_profile(
    types: Sequence[ValueType],
    samples: Mapping[Stack, Sequence[int]],
    *,
    at_nanoseconds: int,
    duration_nanoseconds: int = 0,
    period: tuple[ValueType, int] | None = None,
) -> bytes:
    """Return the gzipped message; each sample has a value for each of *types*."""
    return gzip.compress(
        b"".join(_Writer().parts(types, samples, at_nanoseconds, duration_nanoseconds, period)), compresslevel=6
    )


class _Writer:
    """Message parts with strings, functions and locations numbered in order of appearance."""

    def __init__(self) -> None:
        self._strings: dict[str, int] = {"": 0}
        self._functions: dict[tuple[str, str], int] = {}
        self._locations: dict[Frame, int] = {}

    def parts(
        self,
        types: Sequence[ValueType],
        samples: Mapping[Stack, Sequence[int]],
        at: int,
        duration: int,
        period: tuple[ValueType, int] | None,
    ) -> Iterable[bytes]:
        for type_ in types:
            yield field(1, self._type(type_))
        for stack, values in samples.items():
            ids = b"".join(varint(self._location(frame)) for frame in stack)
            yield field(2, field(1, ids) + field(2, b"".join(map(varint, values))))
        for frame, number in self._locations.items():
            line = _number(1, self._function(frame)) + _number(2, frame.line)
            yield field(4, _number(1, number) + field(4, line))
        for (function, file), number in self._functions.items():
            name = self._string(function)
            yield field(5, _number(1, number) + _number(2, name) + _number(3, name) + _number(4, self._string(file)))
        if period is not None:
            yield field(11, self._type(period[0])) + _number(12, period[1])
        for text in self._strings:
            yield field(6, text.encode(errors="replace"))
        yield _number(9, at) + _number(10, duration)

    def _type(self, type_: ValueType) -> bytes:
        return _number(1, self._string(type_.type)) + _number(2, self._string(type_.unit))

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def _location(self, frame: Frame) -> int:
        return self._locations.setdefault(frame, len(self._locations) + 1)

    def _function(self, frame: Frame) -> int:
        return self._functions.setdefault((frame.function, frame.file), len(self._functions) + 1)


def _number(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value) if value else b""
