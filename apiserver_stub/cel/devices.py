"""CEL selectors of devices: the variable ``device`` with driver, attributes and capacities by domain."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from apiserver_stub.cel import BOOL, DYN, CelError, first_line, library, types
from apiserver_stub.cel import cost_bounds as bounds
from apiserver_stub.cel.cost import estimated_cost
from apiserver_stub.cel.cost_bounds import Path, Shape
from apiserver_stub.cel.metered_expression import MeteredExpression
from apiserver_stub.cel.metering import metered
from apiserver_stub.cel.signatures import QUANTITY, Overload, evaluated, typed
from nodeagent.base.aging_cache import aging_cache

if TYPE_CHECKING:
    from cel_expr_python import cel

SEMVER = "kubernetes.Semver"
_VARIABLE = "device"
_VERSION = re.compile(
    r"(?P<major>0|[1-9]\d*)\.(?P<minor>0|[1-9]\d*)\.(?P<patch>0|[1-9]\d*)"
    r"(-(?P<pre>(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)
_INDEX = re.compile(r"""\[\s*(?:"([^"\\]*)"|'([^'\\]*)')\s*\]""")
_CACHED = 256
_MAX_ENTRIES, _MAX_DOMAIN, _MAX_IDENTIFIER, _MAX_TEXT = 32, 63, 32, 64
"""Limits of the attributes and capacities of a device: number, and lengths of domains, names and texts."""


class DeviceSelector(MeteredExpression):
    """A selector of a stored class or claim, to be evaluated for devices."""

    def __init__(self, text: str) -> None:
        """Compile *text*, whose types were checked when it was stored.

        :raises CelError: it does not compile.
        """
        self._domains = frozenset(one or other for one, other in _INDEX.findall(text))
        super().__init__(text, *_evaluation())

    def matches(self, device: Mapping[str, Any]) -> bool:
        """Return whether *device*, a value of :func:`device_value`, is selected.

        :raises CallLimitExceeded: the evaluation costs too much.
        :raises CelError: the expression has no boolean value, for example because an attribute is missing.
        """
        # An unknown domain is an empty map, although it is not in the map of domains.
        unknown: dict[str, Any] = {domain: {} for domain in self._domains}
        maps = {name: {**unknown, **device[name]} for name in ("attributes", "capacity")}
        result = self.evaluate({_VARIABLE: {**device, **maps}})
        if not isinstance(result, bool):
            raise CelError("must evaluate to bool")
        return result


@aging_cache(_CACHED)
def selector(text: str) -> DeviceSelector:
    """Return the compiled selector *text*.

    :raises CelError: it does not compile.
    """
    return DeviceSelector(text)


def check_selector(text: str) -> int:
    """Compile the new selector *text*, and return its greatest cost.

    :raises CelError: it does not compile, or cannot evaluate to a boolean.
    """
    try:
        compiled = _checking().compile(text)
    except RuntimeError as error:
        raise CelError(f"compilation failed: {first_line(error)}") from None
    found = str(compiled.return_type().name()).lower()
    if found not in (BOOL, DYN):
        raise CelError(f"must evaluate to {BOOL} or the unknown type, not {found}")
    return estimated_cost(compiled.serialize(), _shape_of)


def _shape_of(path: Path) -> Shape | None:
    """Return type and greatest size of the values at a path, with the limits of ResourceSlices."""
    match path[1:]:
        case ("driver",):
            return Shape("string", _MAX_DOMAIN)
        case ("attributes" | "capacity",):
            return Shape("map", _MAX_ENTRIES)
        case ("attributes" | "capacity", bounds.KEYS):
            return Shape("string", _MAX_DOMAIN)
        case ("attributes" | "capacity", bounds.VALUES):
            return Shape("map", _MAX_ENTRIES)
        case ("attributes" | "capacity", bounds.VALUES, bounds.KEYS):
            return Shape("string", _MAX_IDENTIFIER)
        case ("attributes", bounds.VALUES, _):
            return Shape("dyn", _MAX_TEXT)
    return None


def device_value(driver: str, device: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of the variable for a device of a resource slice, which has the structure of ``v1``."""
    attributes: dict[str, dict[str, Any]] = {}
    for name, attribute in (device.get("attributes") or {}).items():
        domain, key = _qualified(name, driver)
        attributes.setdefault(domain, {})[key] = _attribute_value(attribute)
    capacities: dict[str, dict[str, Any]] = {}
    for name, capacity in (device.get("capacity") or {}).items():
        domain, key = _qualified(name, driver)
        capacities.setdefault(domain, {})[key] = library.quantity(str(capacity.get("value") or "0"))
    return {
        "driver": driver,
        "allowMultipleAllocations": bool(device.get("allowMultipleAllocations")),
        "attributes": attributes,
        "capacity": capacities,
    }


def is_semver(text: str) -> bool:
    """Return whether *text* is a version as semver.org 2.0.0 defines it."""
    return _VERSION.fullmatch(text) is not None


def _qualified(name: str, driver: str) -> tuple[str, str]:
    domain, slash, key = name.partition("/")
    return (domain, key) if slash else (driver, name)


def _attribute_value(attribute: Mapping[str, Any]) -> Any:
    for name in ("int", "bool", "string", "ints", "bools", "strings"):
        if attribute.get(name) is not None:
            return attribute[name]
    if attribute.get("versions") is not None:
        return [_semver(text) for text in attribute["versions"]]
    return _semver(attribute["version"]) if attribute.get("version") is not None else None


# Versions: a map with the text


def _semver(text: str, normalize: bool = False) -> dict[str, Any]:
    if normalize:
        text = _normalized(text)
    if not is_semver(text):
        raise ValueError(f"parse semantic version: {text}")
    return {"semver": text}


def _normalized(text: str) -> str:
    """Return *text* without the prefix ``v`` and leading zeros, and with three numbers."""
    core = re.split(r"[-+]", text.removeprefix("v"), maxsplit=1)[0]
    numbers = [part.lstrip("0") or "0" for part in core.split(".")]
    rest = text.removeprefix("v")[len(core) :]
    return ".".join([*numbers, "0", "0"][: max(3, len(numbers))]) + rest


def _is_semver(text: str, normalize: bool = False) -> bool:
    return is_semver(_normalized(text) if normalize else text)


def _part(name: str) -> Callable[[dict[str, Any]], int]:
    def run(version: dict[str, Any]) -> int:
        match = _VERSION.fullmatch(version["semver"])
        return int(match[name]) if match else 0

    return run


def _precedence(version: dict[str, Any]) -> tuple[Any, ...]:
    match = _VERSION.fullmatch(version["semver"])
    assert match is not None, "values are created by _semver"
    numbers = tuple(int(match[name]) for name in ("major", "minor", "patch"))
    if match["pre"] is None:
        return (*numbers, 1, ())
    parts = ((0, int(part), "") if part.isdigit() else (1, 0, part) for part in match["pre"].split("."))
    return (*numbers, 0, tuple(parts))


def _compare(one: dict[str, Any], other: dict[str, Any]) -> int:
    """Compare versions or quantities: evaluation does not distinguish their types."""
    if ("semver" in one) != ("semver" in other):
        raise ValueError("no such overload")
    if "semver" not in one:
        return library.compare_quantities(one, other)
    mine, others = _precedence(one), _precedence(other)
    return (mine > others) - (mine < others)


def _versions() -> Iterator[Overload]:
    for parameters in (("string",), ("string", "bool")):
        yield Overload("semver", parameters, SEMVER, _semver, member=False)
        yield Overload("isSemver", parameters, "bool", _is_semver, member=False)
    for name in ("major", "minor", "patch"):
        yield Overload(name, (SEMVER,), "int", _part(name))
    for kind in (SEMVER, QUANTITY):
        yield Overload("isGreaterThan", (kind, kind), "bool", lambda one, other: _compare(one, other) > 0)
        yield Overload("isLessThan", (kind, kind), "bool", lambda one, other: _compare(one, other) < 0)
        yield Overload("compareTo", (kind, kind), "int", _compare)


VERSION_FUNCTIONS = tuple(_versions())
COMPARISONS = {item.name for item in VERSION_FUNCTIONS}
_FUNCTIONS = (*VERSION_FUNCTIONS, *(item for item in library.FUNCTIONS if item.name not in COMPARISONS))


@cache
def _evaluation() -> tuple[cel.Env, cel.Type]:
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_bindings, ext_optional

    environment = cel.NewEnv(
        variables={_VARIABLE: cel.Type.DYN},
        extensions=[ext_optional.ExtOptional(), ext_bindings.ExtBindings()],
        functions=evaluated(metered(_FUNCTIONS)),
    )
    return environment, cel.Type.ERROR


@cache
def _checking() -> cel.Env:
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_bindings, ext_optional

    return cel.NewEnv(
        descriptor_pool=types.device_pool(),
        variables={_VARIABLE: cel.Type(f"{types.PACKAGE}.{types.DEVICE}")},
        extensions=[ext_optional.ExtOptional(), ext_bindings.ExtBindings()],
        functions=typed(_FUNCTIONS),
    )
