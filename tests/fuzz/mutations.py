"""Seeded mutations of inputs, without the coverage that a fuzzer uses, for tests that must run the same every time."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from tests.fuzz.target import Target

NUMBERS = (
    b"0",
    b"-1",
    b"1",
    b"255",
    b"65536",
    b"2147483648",
    b"-9223372036854775809",
    b"18446744073709551616",
    b"9" * 700,
)
BYTES = (
    b"\x00",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\xc3\xa9",
    b"\xed\xa0\x80",
    b"\xf0\x9f\x98\x80",
)
TEXTS = (
    b"\n",
    b"\r\n",
    b"\t",
    b" ",
    b'"',
    b"'",
    b"\\",
    b"/",
    b"../",
    b"%",
    b"{}",
    b"[]",
    b"[[[[[[[[",
    b"null",
    b"\\ud800",
)


def mutated(target: Target, count: int) -> Iterator[bytes]:
    """Yield *count* mutations of the stored inputs of *target*; each depends only on the inputs and its number."""
    stored = [path.read_bytes() for path in target.inputs()]
    for number in range(count):
        chosen = random.Random(f"{target.name} {number}")
        data = chosen.choice(stored)
        for _ in range(chosen.choice((1, 1, 2, 4))):
            data = chosen.choice(_MUTATIONS)(chosen, data, [*target.tokens, *NUMBERS, *BYTES, *TEXTS], stored)
        yield data[: target.max_bytes]


def _flip(chosen: random.Random, data: bytes, _tokens: Sequence[bytes], _stored: Sequence[bytes]) -> bytes:
    at = chosen.randrange(len(data) or 1)
    return data[:at] + bytes(byte ^ 1 << chosen.randrange(8) for byte in data[at : at + 1]) + data[at + 1 :]


def _replace(chosen: random.Random, data: bytes, tokens: Sequence[bytes], _stored: Sequence[bytes]) -> bytes:
    start, end = _range(chosen, data, 8)
    return data[:start] + chosen.choice(tokens) + data[end:]


def _insert(chosen: random.Random, data: bytes, tokens: Sequence[bytes], _stored: Sequence[bytes]) -> bytes:
    at = chosen.randint(0, len(data))
    return data[:at] + chosen.choice(tokens) + data[at:]


def _remove(chosen: random.Random, data: bytes, _tokens: Sequence[bytes], _stored: Sequence[bytes]) -> bytes:
    start, end = _range(chosen, data, 32)
    return data[:start] + data[end:]


def _repeat(chosen: random.Random, data: bytes, _tokens: Sequence[bytes], _stored: Sequence[bytes]) -> bytes:
    start, end = _range(chosen, data, 32)
    return data[:end] + data[start:end] * chosen.choice((1, 2, 64)) + data[end:]


def _splice(chosen: random.Random, data: bytes, _tokens: Sequence[bytes], stored: Sequence[bytes]) -> bytes:
    other = chosen.choice(stored)
    return data[: chosen.randint(0, len(data))] + other[chosen.randint(0, len(other)) :]


def _range(chosen: random.Random, data: bytes, most: int) -> tuple[int, int]:
    start = chosen.randint(0, len(data))
    return start, min(len(data), start + chosen.randint(1, most))


_MUTATIONS: tuple[Callable[[random.Random, bytes, Sequence[bytes], Sequence[bytes]], bytes], ...] = (
    _flip,
    _replace,
    _insert,
    _remove,
    _repeat,
    _splice,
)
