"""The ``authorizer`` of expressions, whose checks are decided between two evaluations.

Evaluation cannot wait for an authorizer. A new check is therefore denied at first; then it is decided, and the
expression is evaluated again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.apimachinery.selected_objects import selected_objects
from apiserver_stub.cel.signatures import AUTHORIZER, DECISION, GROUP_CHECK, PATH_CHECK, RESOURCE_CHECK, Overload

Decide = Callable[[User, RequestInfo], Awaitable[tuple[bool, str]]]
_Check = tuple[str, RequestInfo]
Result = TypeVar("Result")
_ACCOUNTS = "system:serviceaccounts"


class Authorizer:
    """The authorizer for the expressions about one request of *user*."""

    def __init__(self, user: User, decide: Decide) -> None:
        self._user, self._decide = user, decide
        self._decisions: dict[_Check, tuple[bool, str]] = {}
        self._open: set[_Check] = set()

    async def evaluate(self, run: Callable[[], Result], *errors: type[Exception]) -> Result:
        """Return the result of *run*, which evaluates expressions, once all their checks are decided.

        :param run: called again after further checks were decided.
        :param errors: exceptions of *run*, which are raised only if they do not depend on undecided checks.
        """
        while True:
            failure: Exception | None = None
            with self._during():
                try:
                    result = run()
                except errors as error:
                    failure = error
            if await self._settle():
                continue
            if failure is not None:
                raise failure
            return result

    @contextmanager
    def _during(self) -> Iterator[None]:
        """Decide the checks of expressions that are evaluated inside."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    async def _settle(self) -> bool:
        """Decide the open checks; return whether there were any, so that evaluation must be repeated."""
        checks, self._open = self._open, set()
        for check in checks:
            account, info = check
            self._decisions[check] = await self._decide(_account(account) if account else self._user, info)
        return bool(checks)

    def decide(self, account: str, info: RequestInfo) -> tuple[bool, str]:
        """Return whether *account*, or the user, may do *info*, and the reason; a new check is denied."""
        check = account, info
        if check not in self._decisions:
            self._open.add(check)
        return self._decisions.get(check, (False, ""))


_current: ContextVar[Authorizer] = ContextVar("authorizer")


def authorizer_value(info: RequestInfo) -> dict[str, Any]:
    """Return the variable ``authorizer`` for the request *info*."""
    names = ("group", "version", "resource", "subresource", "namespace", "name")
    return {"account": "", "requestResource": {"account": "", **{name: getattr(info, name) for name in names}}}


def _account(text: str) -> User:
    namespace, _, name = text.partition(":")
    groups = (_ACCOUNTS, f"{_ACCOUNTS}:{namespace}", "system:authenticated")
    return User(f"system:serviceaccount:{namespace}:{name}", groups=groups)


def _check(target: dict[str, Any], verb: str) -> dict[str, Any]:
    if "path" in target:
        info = RequestInfo(verb, target["path"])
    else:
        fields = {name: target.get(name) or "" for name in ("group", "resource", "subresource", "namespace", "name")}
        selected = selected_objects(target.get("fieldSelector") or "", target.get("labelSelector") or "")
        info = RequestInfo(verb, "", version=target.get("version") or "*", selected=selected, **fields)
    allowed, reason = _current.get().decide(target["account"], info)
    return {"allowed": allowed, "reason": reason}


def _filled(text: str, name: str) -> str:
    if not text.strip():
        raise ValueError(f"{name} must not be empty")
    return text


def _functions() -> Iterator[Overload]:
    yield Overload("path", (AUTHORIZER, "string"), PATH_CHECK, lambda a, text: {**a, "path": _filled(text, "path")})
    yield Overload("group", (AUTHORIZER, "string"), GROUP_CHECK, lambda a, text: {**a, "group": text})
    yield Overload(
        "serviceAccount", (AUTHORIZER, "string", "string"), AUTHORIZER, lambda a, *names: {"account": ":".join(names)}
    )
    yield Overload(
        "resource",
        (GROUP_CHECK, "string"),
        RESOURCE_CHECK,
        lambda check, text: {**check, "resource": _filled(text, "resource")},
    )
    for name in ("subresource", "namespace", "name", "fieldSelector", "labelSelector"):
        parameters = (RESOURCE_CHECK, "string")
        yield Overload(name, parameters, RESOURCE_CHECK, lambda check, text, name=name: {**check, name: text})
    for kind in (PATH_CHECK, RESOURCE_CHECK):
        yield Overload("check", (kind, "string"), DECISION, _check)
    yield Overload("allowed", (DECISION,), "bool", lambda decision: decision["allowed"])
    yield Overload("reason", (DECISION,), "string", lambda decision: decision["reason"])
    yield Overload("errored", (DECISION,), "bool", lambda decision: False)
    yield Overload("error", (DECISION,), "string", lambda decision: "")


FUNCTIONS = tuple(_functions())
