"""Parsers of option values; errors have the wording of kube-apiserver."""

from __future__ import annotations

import argparse

from nodeagent.base.duration import parse_duration
from nodeagent.base.names import is_ip
from nodeagent.base.release import NEWEST, OLDEST, Release


def boolean(text: str) -> bool:
    if text in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if text in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise argparse.ArgumentTypeError(f'strconv.ParseBool: parsing "{text}": invalid syntax')


def integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f'strconv.ParseFloat: parsing "{text}": invalid syntax') from None


def address(text: str) -> str:
    if not is_ip(text):
        raise argparse.ArgumentTypeError(f'failed to parse IP: "{text}"')
    return text


def release(text: str) -> Release:
    """Return a supported release, such as 1.36."""
    try:
        found = Release.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if found != found.bounded():
        raise argparse.ArgumentTypeError(f"must be between {OLDEST} and {NEWEST}, inclusive")
    return found


def duration(text: str) -> float:
    """Return the duration in seconds."""
    try:
        return parse_duration(text).seconds
    except ValueError:
        raise argparse.ArgumentTypeError(f'time: invalid duration "{text}"') from None


def whole_seconds(text: str) -> int:
    return int(duration(text))


def strings(text: str) -> tuple[str, ...]:
    """Return the items of a comma-separated list."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def switches(text: str) -> dict[str, bool]:
    """Parse comma-separated ``NAME=true|false`` pairs."""
    settings = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = item.partition("=")
        if not equals:
            raise argparse.ArgumentTypeError(f"missing bool value for {name}")
        try:
            settings[name.strip()] = boolean(value.strip())
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentTypeError(f"invalid value of {item}, err: {error}") from None
    return settings
