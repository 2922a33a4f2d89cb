"""Expressions in configuration files, over variables that are untyped objects."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from apiserver_stub.cel import BOOL, DYN, CelError, first_line, library
from apiserver_stub.cel.metered_expression import MeteredExpression
from apiserver_stub.cel.metering import metered
from apiserver_stub.cel.signatures import evaluated, typed

if TYPE_CHECKING:
    from cel_expr_python import cel


class ConfigExpression(MeteredExpression):
    """An expression over *variables*, each an object with text keys."""

    def __init__(self, text: str, variables: tuple[str, ...], returns: str = DYN) -> None:
        """Compile *text*.

        :param returns: ``BOOL`` rejects expressions that cannot be a boolean.
        :raises CelError: it does not compile.
        """
        from cel_expr_python import cel

        try:
            found = _checking(variables).compile(text).return_type()
        except RuntimeError as error:
            raise CelError(f"compilation failed: {first_line(error)}") from None
        if returns == BOOL and found != cel.Type.BOOL:
            raise CelError("must evaluate to bool")
        super().__init__(text, _evaluation(variables), cel.Type.ERROR)


@cache
def _checking(variables: tuple[str, ...]) -> cel.Env:
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_optional

    return cel.NewEnv(
        variables=dict.fromkeys(variables, cel.Type.Map(cel.Type.STRING, cel.Type.DYN)),
        extensions=[ext_optional.ExtOptional()],
        functions=typed(library.FUNCTIONS),
    )


@cache
def _evaluation(variables: tuple[str, ...]) -> cel.Env:
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_optional

    return cel.NewEnv(
        variables=dict.fromkeys(variables, cel.Type.DYN),
        extensions=[ext_optional.ExtOptional()],
        functions=evaluated(metered(library.FUNCTIONS)),
    )
