"""Type checks of the expressions in webhook configurations and admission policies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from apiserver_stub.cel import BOOL, DYN, NULL, CelError, first_line, types

if TYPE_CHECKING:
    from cel_expr_python import cel

_STRINGS_VERSION = 0
"""Version of the string functions; later ones are not available to new expressions."""


class Checker:
    """An environment to compile expressions in, for their errors and types only."""

    def __init__(self, *, params: bool, authorizer: bool = True, composed: bool = False) -> None:
        """Declare the variables of an expression.

        :param params: expressions may use ``params``.
        :param authorizer: expressions may use ``authorizer``.
        :param composed: expressions may use ``variables``, see :meth:`define`.
        """
        self._names = _names(params=params, authorizer=authorizer, composed=composed)
        self._params = params
        self._variables: dict[str, str] = {}

    def check(self, text: str, returns: Sequence[str] = (BOOL,)) -> None:
        """Compile *text*.

        :raises CelError: it does not compile, or has another type than *returns*.
        """
        found = self._compile(text)
        if found not in returns:
            expected = returns[0] if len(returns) == 1 else f"one of [{' '.join(returns)}]"
            raise CelError(f"must evaluate to {expected}")

    def define(self, name: str, text: str) -> None:
        """Compile *text* and declare its value as ``variables.name``, unless *name* is empty.

        :raises CelError: it does not compile; the variable is declared with any type.
        """
        kind = DYN
        try:
            kind = types.field_type(self._compile(text))
        finally:
            if name:
                self._variables[name] = kind

    def without_authorizer(self) -> Checker:
        """Return a checker with the same variables except ``authorizer``."""
        composed = types.VARIABLES in self._names
        found = Checker(params=self._params, authorizer=False, composed=composed)
        found._variables = self._variables
        return found

    def _compile(self, text: str) -> str:
        environment = _environment(self._names, tuple(self._variables.items()))
        try:
            name = str(environment.compile(text).return_type().name()).lower()
        except RuntimeError as error:
            raise CelError(f"compilation failed: {first_line(error)}") from None
        return NULL if name == "null" else name


def _names(*, params: bool, authorizer: bool, composed: bool) -> tuple[str, ...]:
    optional = (("params", params), ("authorizer", authorizer), (types.VARIABLES, composed))
    return tuple(name for name, given in optional if given)


@cache
def _plain_environment(names: tuple[str, ...]) -> cel.Env:
    return _new_environment(names, {})


def _environment(names: tuple[str, ...], variables: tuple[tuple[str, str], ...]) -> cel.Env:
    return _new_environment(names, dict(variables)) if variables else _plain_environment(names)


def _new_environment(names: tuple[str, ...], variables: dict[str, str]) -> cel.Env:
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_optional, ext_strings

    declared: dict[str, Any] = {"object": cel.Type.DYN, "oldObject": cel.Type.DYN}
    declared["request"] = cel.Type(f"{types.PACKAGE}.{types.REQUEST}")
    declared["namespaceObject"] = cel.Type(f"{types.PACKAGE}.{types.NAMESPACE}")
    if "params" in names:
        declared["params"] = cel.Type.DYN
    if types.VARIABLES in names:
        declared[types.VARIABLES] = cel.Type(f"{types.PACKAGE}.{types.VARIABLES}")
    return cel.NewEnv(
        descriptor_pool=types.pool(variables),
        variables=declared,
        extensions=[ext_strings.ExtStrings(_STRINGS_VERSION), ext_optional.ExtOptional()],
    )
