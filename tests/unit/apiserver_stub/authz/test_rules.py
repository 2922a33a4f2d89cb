"""Tests for RBAC rules: matching of requests and coverage of other rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.request import RequestInfo
from apiserver_stub.authz.rules import EVERYTHING, Rule, missing
from tests.unit.apiserver_stub.authz.conftest import rule, to


@pytest.mark.parametrize(
    ("given_rule", "info", "allowed"),
    [
        (rule("get", "pods"), to("get", "pods"), True),
        (rule("get", "pods"), to("list", "pods"), False),
        (rule("get", "pods"), to("get", "pods", group="apps"), False),
        (rule("*", "pods", group="*"), to("patch", "pods", group="apps"), True),
        (rule("get", "pods"), to("get", "pods/log"), False),
        (rule("get", "pods/log"), to("get", "pods"), False),
        (rule("get", "*"), to("get", "pods/log"), True),
        (rule("get", "*/log"), to("get", "pods/log"), True),
        (rule("get", "*/log"), to("get", "log"), False),
        (rule("get", "pods/*"), to("get", "pods/log"), False),
        (rule("get", "pods", names="a,b"), to("get", "pods", "ns", "b"), True),
        (rule("get", "pods", names="a,b"), to("get", "pods", "ns", "c"), False),
        (rule("list", "pods", names="a"), to("list", "pods", "ns"), False),
        (rule("get", paths="/healthz"), RequestInfo("get", "/healthz"), True),
        (rule("get", paths="/healthz"), RequestInfo("get", "/healthz/etcd"), False),
        (rule("get", paths="/healthz/*"), RequestInfo("get", "/healthz/etcd"), True),
        (rule("get", paths="/healthz/*"), RequestInfo("get", "/healthz"), False),
        (rule("get", paths="*"), RequestInfo("get", "/metrics"), True),
        (rule("get", paths="*"), to("get", "pods"), False),
        (rule("*", "*", group="*"), RequestInfo("get", "/metrics"), False),
    ],
)
def test_rule_allows_matching_requests(given_rule: Object, info: RequestInfo, allowed: bool) -> None:
    assert Rule.read(given_rule).allows(info) is allowed


@pytest.mark.parametrize(
    ("held", "expected", "lines"),
    [
        ([rule("get,list", "pods")], rule("get", "pods", names="a"), []),
        (
            [rule("get", "pods", names="a")],
            rule("get", "pods"),
            ['{APIGroups:[""], Resources:["pods"], Verbs:["get"]}'],
        ),
        (
            [rule("get", "pods", names="a")],
            rule("get", "pods", names="a,b"),
            ['{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["get"]}'],
        ),
        ([rule("get", "*/scale", group="*")], rule("get", "a/scale,b/scale"), []),
        ([rule("get", "pods"), rule("list", "pods")], rule("get,list", "pods"), []),
        (
            [rule("get", "pods")],
            rule("get,list,watch", "pods,nodes"),
            [
                '{APIGroups:[""], Resources:["nodes"], Verbs:["get" "list" "watch"]}',
                '{APIGroups:[""], Resources:["pods"], Verbs:["list" "watch"]}',
            ],
        ),
        ([rule("get", paths="/a/*")], rule("get", paths="/a/b,/a/*"), []),
        ([rule("get", paths="/a")], rule("get", paths="/a/*"), ['{NonResourceURLs:["/a/*"], Verbs:["get"]}']),
        ([rule("*", "*")], rule("get", "*", group="*"), ['{APIGroups:["*"], Resources:["*"], Verbs:["get"]}']),
    ],
)
def test_uncovered_rules_are_reported(held: list[Object], expected: Object, lines: list[str]) -> None:
    lacking = missing([Rule.read(item) for item in held], [Rule.read(expected)])

    assert sorted(map(str, lacking)) == lines


WORDS = st.lists(st.sampled_from(["*", "a", "b", "a/x", "*/x"]), min_size=1, max_size=2).map(tuple)
RULES = st.builds(Rule, WORDS, WORDS, WORDS, st.sampled_from([(), ("n",), ("n", "m")]))
REQUESTED = st.builds(
    to,
    st.sampled_from(["a", "b", "*"]),
    st.sampled_from(["a", "b", "a/x", "b/x"]),
    name=st.sampled_from(["", "n", "m"]),
    group=st.sampled_from(["a", "b"]),
)


@given(st.lists(RULES, max_size=3), RULES, REQUESTED)
def test_covered_rules_allow_all_requested_actions(held: list[Rule], expected: Rule, info: RequestInfo) -> None:
    if not missing(held, [expected]) and expected.allows(info):
        assert any(item.allows(info) for item in held)


@given(RULES)
def test_only_wildcard_rule_covers_everything(small: Rule) -> None:
    assert not missing(EVERYTHING, [small])
    assert missing([small], EVERYTHING)
    assert Rule.read(small.write()) == small
