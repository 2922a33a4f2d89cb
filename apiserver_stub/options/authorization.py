"""Who may."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from apiserver_stub.options import values
from apiserver_stub.options.declare import Group

TITLE = "Authorization"
MODES = ("AlwaysAllow", "AlwaysDeny", "Builtin")


@dataclass(frozen=True)
class AuthorizationOptions:
    authorization_mode: tuple[str, ...] = ("Builtin",)


def declare(group: Group) -> None:
    group.add(
        "authorization-mode",
        values.strings,
        "In order: AlwaysAllow, AlwaysDeny, Builtin (default: nodes and system:masters).",
    )


def check(options: AuthorizationOptions) -> Iterator[str]:
    for name in options.authorization_mode:
        if name not in MODES:
            yield f'--authorization-mode "{name}" is not one of those that work here: {", ".join(MODES)}'
    if len(set(options.authorization_mode)) != len(options.authorization_mode):
        yield "--authorization-mode names a mode twice"
