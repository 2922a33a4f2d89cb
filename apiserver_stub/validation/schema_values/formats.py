"""Formats of texts in schemas. Formats that are not listed here are not validated, as upstream. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date
from ipaddress import IPv4Address, IPv6Address, ip_network

from nodeagent.base import gourl
from nodeagent.base.duration import parse_duration
from nodeagent.base.names import label_problems, subdomain_problems


def format_check(name: str) -> Callable[[str], bool] | None:
    """Return the predicate of the format *name*, ``None`` if the format is not validated."""
    return _FORMATS.get(name.replace("-", ""))


def is_known(name: str) -> bool:
    """Return whether upstream validates texts of the format *name*."""
    return name.replace("-", "") in _FORMATS


def is_object_name(name: str) -> bool:
    """Return whether *name* is a format of names of objects, which releases before 1.34 do not validate."""
    return name.replace("-", "") in _NAMES_OF_OBJECTS


_NAMES_OF_OBJECTS = ("k8sshortname", "k8slongname")


def _matching(pattern: str) -> Callable[[str], bool]:
    # Compiled at the first use, since most servers validate few of the formats.
    return lambda text: re.fullmatch(pattern, text, re.ASCII) is not None


def _is_uri(text: str) -> bool:
    try:
        gourl.parse_request(text)
    except gourl.InvalidUrl:
        return False
    return True


_ADDRESS = re.compile(r"[^\s@<>()\[\],;:\"]+@[^\s@<>()\[\],;:\"]+")


def _is_email(text: str) -> bool:
    from email.utils import parseaddr  # Deferred: loads many modules for a rare format.

    try:
        _, address = parseaddr(text)
    except RecursionError:  # Nested comments.
        return False
    return _ADDRESS.fullmatch(address) is not None


_HOSTNAME = re.compile(r"[^\W_]([-\w]*[^\W_])?(\.[^\W_]([-\w]*[^\W_])?)*", re.UNICODE)


def _is_hostname(text: str) -> bool:
    labels = text.split(".")
    if len(text) > 255 or any(len(label) > 63 for label in labels) or _HOSTNAME.fullmatch(text) is None:
        return False
    return len(labels) == 1 or (labels[-1].isalpha() and len(labels[-1]) > 1)


def _is_ipv4(text: str) -> bool:
    try:
        IPv4Address(text)
    except ValueError:
        return False
    return True


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return "%" not in text


def _is_cidr(text: str) -> bool:
    address, slash, length = text.partition("/")
    try:
        ip_network(text, strict=False)
    except ValueError:
        return False
    return bool(address and slash) and length.isdigit() and (length == "0" or not length.startswith("0"))


_MAC = re.compile(r"[0-9A-Fa-f]{2}([:-])[0-9A-Fa-f]{2}(\1[0-9A-Fa-f]{2})+|[0-9A-Fa-f]{4}(\.[0-9A-Fa-f]{4})+")
_MAC_BYTES = (6, 8, 20)


def _is_mac(text: str) -> bool:
    return _MAC.fullmatch(text) is not None and sum(map(str.isalnum, text)) // 2 in _MAC_BYTES


def _is_isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]", "", text, flags=re.ASCII)
    if re.fullmatch(r"\d{9}[\dX]", digits, re.ASCII) is None:
        return False
    return sum((index + 1) * (10 if digit == "X" else int(digit)) for index, digit in enumerate(digits)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]", "", text, flags=re.ASCII)
    if re.fullmatch(r"\d{13}", digits, re.ASCII) is None:
        return False
    return sum(int(digit) * (3 if index % 2 else 1) for index, digit in enumerate(digits)) % 10 == 0


_CARD = re.compile(
    r"4\d{12}(\d{3})?|5[1-5]\d{14}|6(011|5\d\d)\d{12}|3[47]\d{13}|3(0[0-5]|[68]\d)\d{11}|(2131|1800|35\d{3})\d{11}",
    re.ASCII,
)


def _is_card(text: str) -> bool:
    digits = re.sub(r"\D", "", text, flags=re.ASCII)
    if _CARD.fullmatch(digits) is None:
        return False
    doubled = [int(digit) * (2 if index % 2 else 1) for index, digit in enumerate(reversed(digits))]
    return sum(number - 9 if number > 9 else number for number in doubled) % 10 == 0


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII) is not None


_UNIT = re.compile(r"(\d+)\s*([A-Za-zµ]+)", re.ASCII)
_UNITS = ("ns", "nano", "us", "µs", "micro", "ms", "milli", "s", "sec", "m", "min", "h", "hr", "hour", "d", "day")
_LONG_UNITS = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week", "wk")


def _is_duration(text: str) -> bool:
    try:
        parse_duration(text)
    except ValueError:
        units = [unit.lower() for _, unit in _UNIT.findall(text)]
        return any(unit in (*_UNITS, "w") or unit.startswith(_LONG_UNITS) for unit in units)
    return True


_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def _is_date_time(text: str) -> bool:
    if _DATE_TIME.fullmatch(text) is None or not _is_date(text[:10]):
        return False
    hour, minute, second = (int(part) for part in text[11:19].split(":"))
    return hour < 24 and minute < 60 and second < 60


_COLOR = r"(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])"
_UUID = "(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?%s[0-9a-f]{3}-?%s[0-9a-f]{3}-?[0-9a-f]{12}"
_HEX, _VARIANT = "[0-9a-f]", "[89ab]"

_FORMATS: Mapping[str, Callable[[str], bool]] = {
    "bsonobjectid": _matching("[0-9a-fA-F]{24}"),
    "uri": _is_uri,
    "email": _is_email,
    "hostname": _is_hostname,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "cidr": _is_cidr,
    "mac": _is_mac,
    "uuid": _matching(_UUID % (_HEX, _HEX)),
    "uuid3": _matching(_UUID % ("3", _HEX)),
    "uuid4": _matching(_UUID % ("4", _VARIANT)),
    "uuid5": _matching(_UUID % ("5", _VARIANT)),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "creditcard": _is_card,
    "ssn": _matching(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "hexcolor": _matching("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _matching(rf"rgb\(\s*{_COLOR}\s*,\s*{_COLOR}\s*,\s*{_COLOR}\s*\)"),
    "byte": _matching("([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"),
    "password": lambda text: True,
    "date": _is_date,
    "duration": _is_duration,
    "datetime": _is_date_time,
    "k8sshortname": lambda text: not label_problems(text),
    "k8slongname": lambda text: not subdomain_problems(text),
}
