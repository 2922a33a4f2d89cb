"""Suites: the clients, the pinned releases that contain their tests, and the tests that use an API server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Suite:
    """Tests of one client.

    :ivar package: distribution on the package index, without version.
    :ivar tests: files and directories of its source distribution; empty if it contains no tests.
    :ivar requires: further packages that the tests import.
    :ivar own: file in ``own/`` with tests of this project, for a client whose distributions contain none.
    """

    name: str
    package: str
    version: str
    tests: Sequence[str] = ()
    requires: Sequence[str] = ()
    seconds: int = 60
    """Timeout of one test."""
    arguments: Sequence[str] = ()
    """Arguments of pytest."""
    own: str = ""

    @property
    def is_node(self) -> bool:
        """Return whether the client is a package of npm."""
        return self.own.endswith(".mjs")

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"


SUITES = {
    suite.name: suite
    for suite in (
        Suite(
            "python",
            "kubernetes",
            "37.0.2",
            (
                "kubernetes/dynamic/test_client.py",
                "kubernetes/dynamic/test_discovery.py",
                "kubernetes/leaderelection",
                "kubernetes/watch",
                "kubernetes/stream",
            ),
        ),
        Suite(
            "asyncio",
            "kubernetes_asyncio",
            "36.1.0",
            (
                "kubernetes_asyncio/dynamic",
                "kubernetes_asyncio/leaderelection",
                "kubernetes_asyncio/utils",
                "kubernetes_asyncio/watch",
            ),
            ("pytest-asyncio",),
        ),
        Suite(
            "kr8s",
            "kr8s",
            "0.20.15",
            ("kr8s/tests/test_api.py", "kr8s/tests/test_auth.py", "kr8s/tests/test_objects.py"),
            ("pytest-asyncio", "trio", "kubernetes-validate"),
            20,
            ("-o", "asyncio_mode=auto"),
        ),
        Suite(
            "kopf",
            "kopf",
            "1.45.2",
            ("tests/e2e",),
            ("pytest-asyncio", "pytest-aiohttp", "pytest-mock", "kmock", "looptime", "freezegun", "certbuilder"),
            120,
            ("--only-e2e",),
        ),
        Suite("lightkube", "lightkube", "1.0.1", requires=("pytest-asyncio",), own="lightkube_requests.py"),
        Suite("pykube", "pykube-ng", "23.6.0", own="pykube_requests.py"),
        Suite("hikaru", "hikaru", "1.3.0", own="hikaru_requests.py"),
        Suite("openapi", "openapi-python-client", "0.29.1", own="generated_client.py"),
        Suite("client-node", "@kubernetes/client-node", "1.4.0", own="client_node.test.mjs"),
    )
}
