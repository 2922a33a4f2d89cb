"""Functions of the Kubernetes CEL libraries for addresses and versions."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.cel import CelError
from apiserver_stub.cel.admission import AdmissionExpression, Checker


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[isIP('1.2.3.4'), isIP('::1'), isIP('1.2.3'), isIP('01.2.3.4')]", [True, True, False, False]),
        ("[isIP('::ffff:1.2.3.4'), isIP('fe80::1%eth0')]", [False, False]),
        ("[ip('fd00::1').family(), ip('10.0.0.1').family()]", [6, 4]),
        ("ip('::1') == ip('0:0::1')", True),
        ("[ip('0.0.0.0').isUnspecified(), ip('127.0.0.9').isLoopback(), ip('::1').isLoopback()]", [True] * 3),
        ("[ip('224.0.0.1'), ip('224.0.1.1'), ip('ff02::1')].map(a, a.isLinkLocalMulticast())", [True, False, True]),
        ("[ip('169.254.1.1'), ip('fe80::1'), ip('10.0.0.1')].map(a, a.isLinkLocalUnicast())", [True, True, False]),
        ("[ip('10.0.0.1'), ip('127.0.0.1'), ip('255.255.255.255')].map(a, a.isGlobalUnicast())", [True, False, False]),
        ("[isCIDR('10.0.0.0/8'), isCIDR('10.1.2.3/8'), isCIDR('10.0.0.0/08')]", [True, True, False]),
        ("[isCIDR('::/0'), isCIDR('10.0.0.0'), isCIDR('10.0.0.0/33')]", [True, False, False]),
        ("['10.9.9.9', '11.0.0.0', '::1'].map(a, cidr('10.1.2.3/8').containsIP(a))", [True, False, False]),
        ("cidr('10.0.0.0/8').containsIP(ip('10.1.1.1'))", True),
        ("['10.1.0.0/16', '10.0.0.0/8', '0.0.0.0/0'].map(a, cidr('10.0.0.0/8').containsCIDR(a))", [True, True, False]),
        ("cidr('fd00::/8').containsCIDR(cidr('10.0.0.0/8'))", False),
        (
            "[cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8'), cidr('10.1.2.3/8').ip() == ip('10.1.2.3')]",
            [True, True],
        ),
        ("cidr('fd00::/64').prefixLength()", 64),
        ("[isSemver('1.0.0'), isSemver('v1'), isSemver('v1', true)]", [True, False, True]),
        ("semver('1.2.3').isLessThan(semver('1.10.0')) && semver('1.0.0-a').compareTo(semver('1.0.0')) == -1", True),
        ("[semver('1.2.3')].map(v, [v.major(), v.minor(), v.patch()])[0]", [1, 2, 3]),
        ("quantity('1').isGreaterThan(quantity('500m')) && quantity('1').compareTo(quantity('1')) == 0", True),
    ],
)
def test_value_of_an_expression_is_that_of_upstream(text: str, value: Any) -> None:
    assert AdmissionExpression(text).evaluate({}) == value


@pytest.mark.parametrize("text", ["ip('x')", "cidr('10.0.0.0')", "cidr('10.0.0.0/8').containsIP('x')", "semver('1')"])
def test_invalid_values_are_errors(text: str) -> None:
    with pytest.raises(CelError):
        AdmissionExpression(text).evaluate({})


@pytest.mark.parametrize("text", ["ip(1)", "'x'.family()", "cidr('10.0.0.0/8').family() == 4"])
def test_types_are_checked(text: str) -> None:
    with pytest.raises(CelError, match="compilation failed"):
        Checker(params=False).check(text)
