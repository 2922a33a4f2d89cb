"""Expressions in webhook configurations and admission policies: type checks, and evaluation."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from apiserver_stub.cel import (
    BOOL,
    DYN,
    NULL,
    CelError,
    addresses,
    authorization,
    devices,
    first_line,
    library,
    mutations,
    types,
)
from apiserver_stub.cel.issues import issues_of
from apiserver_stub.cel.literals import Literals
from apiserver_stub.cel.metered_expression import MeteredExpression
from apiserver_stub.cel.metering import metered
from apiserver_stub.cel.signatures import AUTHORIZER, RESOURCE_CHECK, evaluated, type_named, typed

if TYPE_CHECKING:
    from cel_expr_python import cel

VARIABLES = (
    "object",
    "oldObject",
    "request",
    "params",
    "namespaceObject",
    "variables",
    "authorizer",
)
_FUNCTIONS = (
    *devices.VERSION_FUNCTIONS,
    *(item for item in library.FUNCTIONS if item.name not in devices.COMPARISONS),
    *addresses.FUNCTIONS,
    *authorization.FUNCTIONS,
    *mutations.FUNCTIONS,
)
"""Versions and quantities share the functions that compare them."""
_ERROR = re.compile(r"^(?:INVALID_ARGUMENT: )?ERROR: .*$", re.MULTILINE)
_NUMBERS = re.compile(
    r"no matching overload for '_(<|<=|>|>=)_' applied to '\((int|uint|double), (int|uint|double)\)'$"
)


class InstantiationError(CelError):
    """An expression compiles, but a literal in it has no value."""


class AdmissionExpression(MeteredExpression):
    """An expression of a stored webhook configuration or policy, to be evaluated."""

    def __init__(self, text: str, rewrite: Callable[[bytes], bytes] = bytes) -> None:
        """Compile *text*, whose types were checked when it was stored.

        :param rewrite: changes the parsed expression.
        :raises CelError: it does not compile.
        """
        super().__init__(text, *_evaluation(), rewrite=rewrite)


def parse(text: str) -> bytes:
    """Return the parsed expression *text*, a ``cel.expr.ParsedExpr`` in ``google.protobuf.Any``.

    :raises CelError: its syntax is invalid.
    """
    try:
        parsed: bytes = _evaluation()[0].compile(text, disable_check=True).serialize()
    except RuntimeError as error:
        raise CelError(f"compilation failed: {first_line(error)}") from None
    return parsed


class Checker:
    """An environment to compile expressions in, for their errors and types only."""

    def __init__(self, *, params: bool, authorizer: bool = True, composed: bool = False) -> None:
        """Declare the variables of an expression.

        :param params: expressions may use ``params``.
        :param authorizer: expressions may use ``authorizer``.
        :param composed: expressions may use ``variables``, see :meth:`define`.
        """
        optional = (("params", params), ("authorizer", authorizer), (types.VARIABLES, composed))
        self._names = frozenset(name for name, given in optional if given)
        self._variables: dict[str, str] = {}

    def check(self, text: str, returns: Sequence[str] = (BOOL,)) -> None:
        """Compile *text*.

        :raises CelError: it does not compile, or has another type than *returns*.
        """
        found = self._compile(text)
        if found not in returns:
            expected = returns[0] if len(returns) == 1 else f"one of [{' '.join(returns)}]"
            raise CelError(f"must evaluate to {expected}")
        _check_conversions(self._literals(text))

    def define(self, name: str, text: str) -> None:
        """Compile *text* and declare its value as ``variables.name``, unless *name* is empty.

        :raises CelError: it does not compile; the variable is declared with any type.
        """
        kind = DYN
        try:
            kind = types.field_type(self._compile(text))
            _check_conversions(self._literals(text))
        finally:
            if name:
                self._variables[name] = kind

    def without_authorizer(self) -> Checker:
        """Return a checker with the same variables except ``authorizer``."""
        found = Checker(params=False)
        found._names, found._variables = self._names - {"authorizer"}, self._variables
        return found

    def _compile(self, text: str) -> str:
        """Return the type of *text*."""
        try:
            compiled = self._environment.compile(text)
        except RuntimeError as error:
            # Numbers of different types are comparable, which this type checker does not support.
            if all(_NUMBERS.search(line) for line in _ERROR.findall(str(error))):
                return BOOL
            raise CelError(f"compilation failed: {first_line(error)}") from None
        if Literals(compiled.serialize()).mixed():
            raise CelError("compilation failed: ERROR: items of a list or map literal have different types")
        try:
            name = str(compiled.return_type().name()).lower()
        except RuntimeError as error:  # The type of a map's keys is verified only here.
            raise CelError(f"compilation failed: {first_line(error)}") from None
        return NULL if name == "null" else name

    def _literals(self, text: str) -> Literals | None:
        try:
            return Literals(self._environment.compile(text).serialize())
        except RuntimeError:
            return None

    @property
    def _environment(self) -> cel.Env:
        return _checking(self._names, tuple(self._variables.items()))


class KindChecker(Checker):
    """Checker of expressions for the objects of one kind."""

    def __init__(
        self, kind: str, messages: Mapping[str, Mapping[str, str]], *, params: str | None, composed: bool = False
    ) -> None:
        """Declare the variables of an expression.

        :param kind: type of ``object`` and ``oldObject``, see :func:`apiserver_stub.cel.types.type_of`.
        :param messages: the object types by name.
        :param params: type of ``params``; ``None`` if expressions cannot use it.
        """
        super().__init__(params=params is not None, composed=composed)
        self._messages = messages
        self._kinds = {"object": kind, "oldObject": kind} | ({} if params is None else {"params": params})
        self._built: tuple[dict[str, str], cel.Env] | None = None

    def issues(self, text: str) -> str:
        """Return the errors of *text* with their positions, empty without any."""
        try:
            self._environment.compile(text)
        except RuntimeError as error:
            return issues_of(error)
        return ""

    @property
    def _environment(self) -> cel.Env:
        if self._built is None or self._built[0] != self._variables:
            variables = dict(self._variables)
            self._built = variables, _new_checking(self._names, variables, self._kinds, self._messages)
        return self._built[1]


def _check_conversions(literals: Literals | None) -> None:
    """Check the literal texts that are converted before the evaluation.

    :raises InstantiationError: one is invalid.
    """
    for name, text in literals.conversions() if literals is not None else ():
        call = f"{name}(object)" if name in ("duration", "timestamp") else "''.matches(object)"
        try:
            AdmissionExpression(call).evaluate({"object": text})
        except CelError as error:
            raise InstantiationError(f"program instantiation failed: {error}") from None  # wording: ok


@cache
def _evaluation() -> tuple[cel.Env, cel.Type]:
    """Return the environment for evaluation, and the type of errors."""
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_optional

    environment = cel.NewEnv(
        variables=dict.fromkeys(VARIABLES, cel.Type.DYN),
        extensions=[ext_optional.ExtOptional()],
        functions=evaluated(metered(_FUNCTIONS)),
    )
    return environment, cel.Type.ERROR


@cache
def _plain_checking(names: frozenset[str]) -> cel.Env:
    return _new_checking(names, {})


def _checking(names: frozenset[str], variables: tuple[tuple[str, str], ...]) -> cel.Env:
    return _new_checking(names, dict(variables)) if variables else _plain_checking(names)


def _new_checking(
    names: frozenset[str],
    variables: dict[str, str],
    kinds: Mapping[str, str] = MappingProxyType({}),
    messages: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> cel.Env:
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_optional

    declared: dict[str, Any] = {"object": cel.Type.DYN, "oldObject": cel.Type.DYN}
    declared["request"] = cel.Type(f"{types.PACKAGE}.{types.REQUEST}")
    declared["namespaceObject"] = cel.Type(f"{types.PACKAGE}.{types.NAMESPACE}")
    if "params" in names:
        declared["params"] = cel.Type.DYN
    if "authorizer" in names:
        declared["authorizer"] = type_named(AUTHORIZER)
        declared["authorizer.requestResource"] = type_named(RESOURCE_CHECK)
    if types.VARIABLES in names:
        declared[types.VARIABLES] = cel.Type(f"{types.PACKAGE}.{types.VARIABLES}")
    declared |= {name: types.type_of(kind) for name, kind in kinds.items()}
    return cel.NewEnv(
        descriptor_pool=types.pool(variables, messages),
        variables=declared,
        extensions=[ext_optional.ExtOptional()],
        functions=typed(_FUNCTIONS),
    )
