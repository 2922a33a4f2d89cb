"""Syntax check of JSONPath expressions as ``kubectl`` accepts them. No I/O.

Custom, since packages implement other dialects of JSONPath.
"""

from __future__ import annotations

import re

_TERMINATOR = re.compile(r"[\s.,\[\]$@{}]|\Z")
_FIELD = re.compile(r"(?:\\.|[^\s.,\[\]$@{}\\])*", re.DOTALL)
_NUMBER = re.compile(r"[+-]?[\d.]*")
_VALID_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)")
_ARRAY = re.compile(r"\[[^\]\n]*\]")
_QUOTED = re.compile(r"\"(?:\\\"|[^\"\n])*\"|'(?:\\'|[^'\n])*'")
_KEY = re.compile(r"'([^']*)'")
_SLICE = re.compile(r"(-?\d*)(:-?\d*)?(:-?\d*)?")
_COMPARISON = re.compile(r"([^!<>=]+)([!<>=]+)(.+)")


class _Invalid(ValueError):
    """An expression does not parse."""


def jsonpath_problem(path: str) -> str:
    """Return the reason why *path*, without its braces, is not a JSONPath expression; empty if it is one."""
    try:
        _check(path)
    except _Invalid as error:
        return str(error)
    return ""


def _check(path: str) -> None:
    """Check the inside of braces; text behind them needs no check until the next brace."""
    rest, recursive = path, False
    while rest:
        if rest.startswith("}"):
            _, brace, rest = rest.partition("{")
            if not brace:
                return
            continue
        after = rest[1:]
        if rest.startswith("[?("):
            rest = _check_filter(rest)
        elif rest.startswith(".."):
            if recursive:
                raise _Invalid("invalid multiple recursive descent")
            rest, recursive = rest[2:], True
            if rest[:1].isalnum() or rest.startswith("_"):
                rest, recursive = rest[_end(_FIELD, rest) :], False
            continue
        elif rest[0] in "\r\n":
            raise _Invalid("unclosed action")
        elif rest[0] in " @$":
            rest = after
            continue
        elif rest[0] == "[":
            rest = _check_array(rest)
        elif rest[0] in "\"'":
            if not (match := _QUOTED.match(rest)):
                raise _Invalid("unterminated quoted string")
            rest = rest[match.end() :]
        elif rest[0] == ".":
            rest = after[_end(_FIELD, after) :]
        elif rest[0] in "+-" or rest[0].isdigit():
            end = _end(_NUMBER, rest)
            if not _VALID_NUMBER.fullmatch(rest[:end]):
                raise _Invalid(f"cannot parse number {rest[:end]}")
            rest = rest[end:]
        elif rest[0].isalpha() or rest[0] == "_":
            match = _TERMINATOR.search(rest)
            rest = rest[match.start() :] if match else ""
        else:
            raise _Invalid(f"unrecognized character in action: U+{ord(rest[0]):04X} '{rest[0]}'")
        recursive = False


def _end(pattern: re.Pattern[str], text: str) -> int:
    match = pattern.match(text)
    return match.end() if match else 0


def _check_array(text: str) -> str:
    """Check an index, a slice or a union; return the text behind it."""
    if not (match := _ARRAY.match(text)):
        raise _Invalid("unterminated array")
    inside = match.group()[1:-1]
    if "," in inside:
        for part in inside.split(","):
            _check(f"[{part.strip(' ')}]")
    elif key := _KEY.fullmatch(inside):
        _check(f".{key[1]}")
    elif inside != "*":
        if not (found := _SLICE.fullmatch(inside)):
            raise _Invalid(f"invalid array index {inside}")
        for number in found.groups(default=""):
            if number.lstrip(":") == "-":
                raise _Invalid(f"array index {number.lstrip(':')} is not a number")
    return text[match.end() :]


def _check_filter(text: str) -> str:
    """Check a filter ``[?(left operator right)]``; return the text behind it."""
    start = len("[?(")
    quote, closed, end = "", False, -1
    for index in range(start, len(text)):
        character = text[index]
        if character == "\n":
            break
        if character in "\"'":
            if not quote:
                quote = character
            elif character == quote and text[index - 1] != "\\":
                closed = True
        elif character == ")" and bool(quote) == closed:
            end = index
            break
    if end < 0:
        raise _Invalid("unterminated filter")
    if text[end + 1 : end + 2] != "]":
        raise _Invalid("unclosed array expect ]")
    inside = text[start:end]
    parts = _COMPARISON.fullmatch(inside)
    for part in (parts[1], parts[3]) if parts else (inside,):
        _check(part)
    return text[end + 2 :]
