"""Small texts: quantities, durations, times, schedules, lists of CPUs, selectors, names of images."""

from __future__ import annotations

from datetime import UTC, datetime

from apiserver_stub.apimachinery import cron, quantities
from nodeagent.base import cpu_list as cpu_lists
from nodeagent.base import gobase64, gotime, selectors
from nodeagent.base.duration import Duration
from nodeagent.base.quantity import Quantity
from nodeagent.model.image_name import parse_image_name
from nodeagent_plugins.embedded_runtime.errors import CallError
from nodeagent_plugins.embedded_runtime.images.names import parse_name
from nodeagent_plugins.embedded_runtime.images.registry import is_plain
from tests.fuzz.target import target

AFTER = datetime(2024, 2, 28, 23, 59, 30, tzinfo=UTC)


@target(ValueError, tokens=(b"Ki", b"Ei", b"e-9", b"E18", b"n", b"u", b"m", b"0.", b"9223372036854775807", b"."))
def quantity(data: bytes) -> None:
    """The canonical text has the same value; both binaries accept the same texts."""
    text = data.decode()
    try:
        found = Quantity.parse(text)
    except ValueError:
        found = None
    try:
        canonical = quantities.canonical(text)
    except quantities.InvalidQuantity:
        canonical = None
    if canonical is not None:
        Quantity.parse(canonical)
    if found is not None and canonical is not None:
        assert Quantity.parse(str(found)) == found
        assert found.value() >= found.milli_value() // 1000
        assert Quantity.parse(canonical) == found
        quantities.of_resource_list(text)


@target(ValueError, tokens=(b"h", b"ms", b"ns", "µs".encode(), b"1.5", b"9223372036854775807ns", b"-"))
def duration(data: bytes) -> None:
    """The canonical text is the same duration."""
    found = Duration.parse(data.decode())
    assert Duration.parse(str(found)) == found


@target(
    cron.CronError,
    UnicodeDecodeError,
    tokens=(b"@every ", b"TZ=Europe/Berlin ", b"CRON_TZ=", b"*/", b"JAN-MAR", b"sun", b"@weekly", b"?"),
)
def cron_schedule(data: bytes) -> None:
    """The next time is later, and the search for it ends."""
    schedule = cron.parse_schedule(data.decode())
    following = schedule.next(AFTER)
    assert following is None or following > AFTER


@target(ValueError, tokens=(b",", b"-", b"99999"))
def cpu_list(data: bytes) -> None:
    """Lists are small, whatever the numbers."""
    assert len(cpu_lists.parse_cpu_list(data.decode())) <= 100_000


@target(
    gotime.ParseError,
    UnicodeDecodeError,
    tokens=(b"T", b"Z", b"+23:59", b"-00:01", b"0000-01-01", b"9999-12-31", b".999999999"),
)
def time(data: bytes) -> None:
    """The text of a time is the same time."""
    text = data.decode()
    instant = gotime.parse(text)
    if gotime.LEAST_SECONDS <= instant.seconds <= gotime.MOST_SECONDS:
        assert gotime.parse(gotime.render(instant.seconds)).seconds == instant.seconds
        gotime.parse(gotime.render(instant.seconds, instant.nanos // 1000), gotime.RFC3339_MICRO)


@target(gobase64.CorruptInput, UnicodeDecodeError, tokens=(b"==", b"\r\n", b"-_"))
def base64(data: bytes) -> None:
    """The canonical text decodes to the same bytes."""
    text = data.decode()
    canonical = gobase64.canonical(text)
    assert gobase64.decode(canonical) == gobase64.decode(text)
    assert gobase64.decode_url(gobase64.encode_url(data)) == data


@target(
    selectors.SelectorError,
    UnicodeDecodeError,
    tokens=(b" in (", b" notin (", b"!=", b"==", b">", b"!", b"example.com/", b","),
)
def label_selector(data: bytes) -> None:
    """A selector that was parsed can be matched."""
    selector = selectors.parse_label_selector(data.decode())
    selector.matches({})
    selector.matches({requirement.key: "1" for requirement in selector.requirements})


@target(selectors.SelectorError, UnicodeDecodeError, tokens=(b"\\,", b"\\=", b"!=", b"==", b"metadata.name"))
def field_selector(data: bytes) -> None:
    """A term matches its own value."""
    selector = selectors.parse_field_selector(data.decode())
    for term in selector.terms:
        assert selectors.FieldSelector((term,)).matches(lambda _, value=term.value: value) is term.equal
        selector.pinned(term.field)


@target(ValueError, CallError, tokens=(b"docker.io/", b"@sha256:", b":5000/", b"[::1]:80/", b"__", b"0" * 64))
def image_name(data: bytes) -> None:
    """The text of a name is the same name; both binaries accept the same names."""
    text = data.decode()
    try:
        name = parse_name(text)
    except CallError:
        name = None
    else:
        assert parse_name(str(name)) == name
        is_plain(name.domain, [])
    assert (name is None) == (_image_name(text) is None)


def _image_name(text: str) -> object:
    try:
        return parse_image_name(text)
    except ValueError:
        return None
