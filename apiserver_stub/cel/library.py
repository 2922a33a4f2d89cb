"""Functions of the Kubernetes CEL libraries for texts, lists, regular expressions, URLs and quantities."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs

from apiserver_stub.cel import patterns
from apiserver_stub.cel.signatures import QUANTITY, URL, Overload
from nodeagent.base import gourl
from nodeagent.base.quantity import Quantity

_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_SUMMABLE = ("int", "uint", "double", "duration")
_NANOS = 10**9

# Texts


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise ValueError(f"index out of range: {index}")
    return text[index : index + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if not part:
        return start  # As upstream, also beyond the text.
    if start < 0:
        raise ValueError(f"index out of range: {start}")
    return text.find(part, start)


def _last_index_of(text: str, part: str, end: int | None = None) -> int:
    if end is None:
        return text.rfind(part)
    if not part:
        return end
    if end < 0:
        raise ValueError(f"index out of range: {end}")
    return text.rfind(part, 0, end + len(part)) if end < len(text) else -1


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit < 0:
        most = len(text)
    elif limit == 0:
        return []
    else:
        most = limit - 1
    return text.split(separator, most) if separator else [*text[:most], *filter(None, [text[most:]])]


def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if not 0 <= start <= stop <= len(text):
        raise ValueError(f"index out of range: {start}, {stop}")
    return text[start:stop]


_VERB = re.compile(r"%(%|(\.\d+)?[sdfxXobe])")


def _format(template: str, values: list[Any]) -> str:
    """Return *template* with its verbs replaced by *values*."""
    remaining = iter(values)

    def put(match: re.Match[str]) -> str:
        if match[1] == "%":
            return "%"
        try:
            value = next(remaining)
        except StopIteration:
            raise ValueError(f"index {len(values)} out of range") from None
        verb, precision = match[1][-1], match[2] or ""
        if verb == "s":
            return _shown(value)
        if verb in "xX" and isinstance(value, str | bytes | bytearray):
            digits = (value.encode() if isinstance(value, str) else value).hex()
            return digits if verb == "x" else digits.upper()
        return format(value, f"{precision or '.6'}{verb}" if verb in "fe" else verb)

    return _VERB.sub(put, template)


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float):
        return format(value, ".17g")
    if isinstance(value, bytes | bytearray):
        return value.decode(errors="replace")
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_shown(key)}: {_shown(value[key])}' for key in sorted(value))}}}"
    return str(value)


_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
_UPPER = {value: key for key, value in _LOWER.items()}


def _texts() -> Iterator[Overload]:
    yield Overload("charAt", ("string", "int"), "string", _char_at)
    yield Overload("indexOf", ("string", "string"), "int", _index_of)
    yield Overload("indexOf", ("string", "string", "int"), "int", _index_of)
    yield Overload("lastIndexOf", ("string", "string"), "int", _last_index_of)
    yield Overload("lastIndexOf", ("string", "string", "int"), "int", _last_index_of)
    yield Overload("join", ("list(string)",), "string", "".join)
    yield Overload("join", ("list(string)", "string"), "string", lambda texts, separator: separator.join(texts))
    yield Overload("format", ("string", "list(dyn)"), "string", _format)
    yield Overload("lowerAscii", ("string",), "string", lambda text: text.translate(_LOWER))
    yield Overload("upperAscii", ("string",), "string", lambda text: text.translate(_UPPER))
    yield Overload("replace", ("string", "string", "string"), "string", str.replace)
    yield Overload("replace", ("string", "string", "string", "int"), "string", str.replace)
    yield Overload("split", ("string", "string"), "list(string)", _split)
    yield Overload("split", ("string", "string", "int"), "list(string)", _split)
    yield Overload("substring", ("string", "int"), "string", _substring)
    yield Overload("substring", ("string", "int", "int"), "string", _substring)
    yield Overload("trim", ("string",), "string", str.strip)


# Regular expressions


def _expressions() -> Iterator[Overload]:
    yield Overload("find", ("string", "string"), "string", patterns.find)
    yield Overload("findAll", ("string", "string"), "list(string)", patterns.find_all)
    yield Overload("findAll", ("string", "string", "int"), "list(string)", patterns.find_all)


# Lists


def _sum(items: list[Any]) -> Any:
    return sum(items[1:], start=items[0]) if items else 0


def _is_sorted(items: list[Any]) -> bool:
    return all(one <= other for one, other in pairwise(items))


def _extreme(name: str, choose: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    def run(items: list[Any]) -> Any:
        if not items:
            raise ValueError(f"{name} called on empty list")
        return choose(items)

    return run


def _position(items: list[Any], item: Any) -> int:
    return next((index for index, found in enumerate(items) if _same(found, item)), -1)


def _last_position(items: list[Any], item: Any) -> int:
    return next((index for index in range(len(items) - 1, -1, -1) if _same(items[index], item)), -1)


def _same(one: Any, other: Any) -> bool:
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _lists() -> Iterator[Overload]:
    for kind in _COMPARABLE:
        items = (f"list({kind})",)
        yield Overload("isSorted", items, "bool", _is_sorted)
        yield Overload("min", items, kind, _extreme("min", min))
        yield Overload("max", items, kind, _extreme("max", max))
    for kind in _SUMMABLE:
        yield Overload("sum", (f"list({kind})",), kind, _sum)
    yield Overload("indexOf", ("list(dyn)", "dyn"), "int", _position)
    yield Overload("lastIndexOf", ("list(dyn)", "dyn"), "int", _last_position)


# Sets: lists whose order and duplicates do not matter


def _equals(one: Any, other: Any) -> bool:
    """Return whether two values are equal as in CEL, where no boolean is equal to a number."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equals, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equals(value, other[key]) for key, value in one.items())
    return _same(one, other)


def _are_texts(items: list[Any], others: list[Any]) -> bool:
    """Return whether all values are texts, whose comparison by hash is much faster."""
    return all(isinstance(item, str) for item in items) and all(isinstance(other, str) for other in others)


def _contains_all(items: list[Any], others: list[Any]) -> bool:
    if _are_texts(items, others):
        return set(items).issuperset(others)
    return all(any(_equals(item, other) for item in items) for other in others)


def _are_equivalent(items: list[Any], others: list[Any]) -> bool:
    return _contains_all(items, others) and _contains_all(others, items)


def _intersects(items: list[Any], others: list[Any]) -> bool:
    if _are_texts(items, others):
        return not set(items).isdisjoint(others)
    return any(_equals(item, other) for item in items for other in others)


def _sets() -> Iterator[Overload]:
    lists = ("list(dyn)", "list(dyn)")
    yield Overload("sets.contains", lists, "bool", _contains_all, member=False)
    yield Overload("sets.intersects", lists, "bool", _intersects, member=False)
    yield Overload("sets.equivalent", lists, "bool", _are_equivalent, member=False)


# URLs


def _url(text: str) -> dict[str, Any]:
    url = gourl.parse_request(text)
    host, _, port = url.host.rpartition(":") if re.search(r":\d*$", url.host) else (url.host, "", "")
    return {
        "scheme": url.scheme,
        "host": url.host,
        "hostname": host.removeprefix("[").removesuffix("]"),
        "port": port,
        "path": url.path,
        "query": parse_qs(url.query, keep_blank_values=True),
    }


def _is_url(text: str) -> bool:
    try:
        gourl.parse_request(text)
    except gourl.InvalidUrl:
        return False
    return True


def _urls() -> Iterator[Overload]:
    yield Overload("url", ("string",), URL, _url, member=False)
    yield Overload("isURL", ("string",), "bool", _is_url, member=False)
    parts = {"getScheme": "scheme", "getHost": "host", "getHostname": "hostname", "getPort": "port"}
    for name, part in (parts | {"getEscapedPath": "path"}).items():
        yield Overload(name, (URL,), "string", lambda url, part=part: url[part])
    yield Overload("getQuery", (URL,), "map(list(string))", lambda url: url["query"])


# Quantities: a map with the amount in billionths


def quantity(text: str) -> dict[str, Any]:
    return {"nanos": str(Quantity.parse(text).nanos)}


def _is_quantity(text: str) -> bool:
    try:
        Quantity.parse(text)
    except ValueError:
        return False
    return True


def _nanos(quantity: Any) -> int:
    return quantity * _NANOS if isinstance(quantity, int) else int(quantity["nanos"])


def _whole(quantity: dict[str, Any]) -> int:
    nanos = _nanos(quantity)
    if nanos % _NANOS:
        raise ValueError("cannot convert value to integer")
    return nanos // _NANOS


def compare_quantities(one: dict[str, Any], other: dict[str, Any]) -> int:
    return (_nanos(one) > _nanos(other)) - (_nanos(one) < _nanos(other))


def _quantities() -> Iterator[Overload]:
    yield Overload("quantity", ("string",), QUANTITY, quantity, member=False)
    yield Overload("isQuantity", ("string",), "bool", _is_quantity, member=False)
    sign: Callable[[Any], int] = lambda found: (_nanos(found) > 0) - (_nanos(found) < 0)  # noqa: E731
    yield Overload("sign", (QUANTITY,), "int", sign, member=False)
    yield Overload("isGreaterThan", (QUANTITY, QUANTITY), "bool", lambda one, other: compare_quantities(one, other) > 0)
    yield Overload("isLessThan", (QUANTITY, QUANTITY), "bool", lambda one, other: compare_quantities(one, other) < 0)
    yield Overload("compareTo", (QUANTITY, QUANTITY), "int", compare_quantities)
    yield Overload("asApproximateFloat", (QUANTITY,), "double", lambda found: _nanos(found) / _NANOS)
    yield Overload("asInteger", (QUANTITY,), "int", _whole)
    yield Overload("isInteger", (QUANTITY,), "bool", lambda found: not _nanos(found) % _NANOS)
    for kind in (QUANTITY, "int"):
        yield Overload("add", (QUANTITY, kind), QUANTITY, lambda a, b: {"nanos": str(_nanos(a) + _nanos(b))})
        yield Overload("sub", (QUANTITY, kind), QUANTITY, lambda a, b: {"nanos": str(_nanos(a) - _nanos(b))})


FUNCTIONS = (*_texts(), *_expressions(), *_lists(), *_sets(), *_urls(), *_quantities())
