"""The authorizer of expressions."""

from __future__ import annotations

from typing import Any

from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.apimachinery.selected_objects import selected_objects
from apiserver_stub.cel.admission import AdmissionExpression
from apiserver_stub.cel.authorization import Authorizer, authorizer_value

INFO = RequestInfo("create", "", "apps", "v1", "deployments", "", "default", "web")
DATA = {"authorizer": authorizer_value(INFO)}


async def evaluated(text: str, allowed: set[tuple[str, str]]) -> tuple[Any, list[tuple[User, RequestInfo]]]:
    """Return the value of *text* and the checks; *allowed* has names of users and verbs."""
    checks: list[tuple[User, RequestInfo]] = []

    async def decide(user: User, info: RequestInfo) -> tuple[bool, str]:
        checks.append((user, info))
        return (user.name, info.verb) in allowed, f"reason {len(checks)}"

    expression, authorizer = AdmissionExpression(text), Authorizer(User("jane"), decide)
    return await authorizer.evaluate(lambda: expression.evaluate(DATA)), checks


async def test_resource_of_the_request_is_checked_for_its_user() -> None:
    text = "authorizer.requestResource.subresource('scale').check('update').allowed()"

    value, checks = await evaluated(text, {("jane", "update")})

    info = RequestInfo("update", "", "apps", "v1", "deployments", "scale", "default", "web")
    assert (value, checks) == (True, [(User("jane"), info)])


async def test_checks_that_depend_on_decisions_are_made_once() -> None:
    pods = "authorizer.group('').resource('pods').namespace('a')"
    text = f"{pods}.check('get').allowed() && !{pods}.check('list').allowed()"

    value, checks = await evaluated(text, {("jane", "get")})

    assert value is True
    assert [info.verb for _, info in checks] == ["get", "list"]


async def test_path_is_checked_for_a_service_account() -> None:
    text = "authorizer.serviceAccount('default', 'builder').path('/healthz').check('get').reason()"

    value, ((user, info),) = await evaluated(text, set())

    assert value == "reason 1"
    assert (user.name, info.verb, info.path) == ("system:serviceaccount:default:builder", "get", "/healthz")
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated")


async def test_check_is_limited_to_selected_objects() -> None:
    pods = "authorizer.group('').resource('pods').fieldSelector('spec.nodeName=n').labelSelector('app=a')"

    _, ((_, info),) = await evaluated(f"{pods}.check('list').allowed()", set())

    assert info.selected == selected_objects("spec.nodeName=n", "app=a")
