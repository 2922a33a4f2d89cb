"""Signatures of CEL functions: their types for the type checker, and their kinds for evaluation.

The type checker supports opaque types such as URLs; when an expression is evaluated, their values are maps. Evaluation
selects an implementation by the kinds of the arguments only, so overloads with equal kinds share one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from cel_expr_python import cel

URL, QUANTITY = "kubernetes.URL", "kubernetes.Quantity"
AUTHORIZER, PATH_CHECK, GROUP_CHECK, RESOURCE_CHECK, DECISION = (
    f"kubernetes.authorization.{name}"
    for name in ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")
)
ANY_KINDS = ("bool", "bytes", "double", "duration", "int", "list", "map", "null", "string", "timestamp", "uint")


class Overload(Struct, frozen=True):
    """One signature of a function; a member function has its receiver as the first parameter."""

    name: str
    parameters: tuple[str, ...]
    result: str
    implementation: Callable[..., Any]
    member: bool = True


def typed(overloads: Iterable[Overload]) -> list[cel.FunctionDecl]:
    """Return the declarations for the type checker."""
    return _declarations((item.name, item.member, item.parameters, item.result, None) for item in overloads)


def evaluated(overloads: Iterable[Overload]) -> list[cel.FunctionDecl]:
    """Return the declarations for evaluation."""
    found: dict[tuple[str, tuple[str, ...]], Overload] = {}
    for item in overloads:
        for kinds in _kinds_of(item.parameters):
            found.setdefault((item.name, kinds), item)
    return _declarations(
        (name, item.member, kinds, "dyn", item.implementation) for (name, kinds), item in found.items()
    )


def _kinds_of(parameters: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the kinds of arguments for *parameters*; a parameter of any type has all of them."""
    found: list[tuple[str, ...]] = [()]
    for parameter in parameters:
        if parameter == "dyn":
            kinds: tuple[str, ...] = ANY_KINDS
        elif parameter.startswith("list("):
            kinds = ("list",)
        else:
            kinds = ("map" if "." in parameter else parameter,)
        found = [(*before, kind) for before in found for kind in kinds]
    return found


def _declarations(
    items: Iterable[tuple[str, bool, tuple[str, ...], str, Callable[..., Any] | None]],
) -> list[cel.FunctionDecl]:
    from cel_expr_python import cel

    overloads: dict[str, list[cel.Overload]] = {}
    for name, member, parameters, result, implementation in items:
        options: dict[str, Any] = {} if implementation is None else {"impl": implementation}
        overload = cel.Overload(
            f"{name}_{'_'.join(parameters)}",
            return_type=type_named(result),
            parameters=[type_named(parameter) for parameter in parameters],
            is_member=member,
            **options,
        )
        overloads.setdefault(name, []).append(overload)
    return [cel.FunctionDecl(name, found) for name, found in overloads.items()]


def type_named(name: str) -> cel.Type:
    """Return the type *name*: ``string``, ``list(int)``, ``map(dyn)`` with text keys, or an opaque one."""
    from cel_expr_python import cel

    if name.startswith("list("):
        return cel.Type.List(type_named(name[5:-1]))
    if name.startswith("map("):
        return cel.Type.Map(cel.Type.STRING, type_named(name[4:-1]))
    return cel.Type.AbstractType(name) if "." in name else getattr(cel.Type, name.upper())
