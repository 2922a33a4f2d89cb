"""Identities in the headers of an authenticating proxy (spec: opt.requestheader-client-ca-file and its siblings).

Only headers of connections whose client certificate the CA bundle verifies take effect; others are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import unquote

from apiserver_stub.apimachinery.request import User
from apiserver_stub.authn.authenticators import Rejected
from apiserver_stub.authn.certificates import CaBundle, PeerCertificates


class RequestHeaders:
    """Identities in the headers of proxies whose certificates are verified with a CA bundle.

    :param allowed: common names of the proxies; empty allows all.
    :param users: headers with the user name.
    :param groups: headers with the groups.
    :param uids: headers with the UID.
    :param extra: prefixes of the headers with extra values.
    """

    def __init__(
        self,
        authorities: CaBundle,
        *,
        allowed: Sequence[str],
        users: Sequence[str],
        groups: Sequence[str],
        uids: Sequence[str] = (),
        extra: Sequence[str],
    ) -> None:
        self.authorities = authorities
        self._allowed, self._users, self._groups, self._uids = allowed, users, groups, uids
        self._extra = tuple(prefix.lower() for prefix in extra)

    def user_of(self, headers: Mapping[str, str], presented: PeerCertificates) -> User | None:
        """Return the user in the headers, ``None`` if there is none.

        :raises Rejected: the certificate is not that of a proxy.
        """
        subject = self.authorities.subject_of(presented)
        if self._allowed and subject.common_name not in self._allowed:
            raise Rejected(f"x509: subject with cn={subject.common_name} is not in the allowed list")
        if not (name := _first(headers, self._users)):
            return None
        groups = [value for header in self._groups for value in values_of(headers, header) if value]
        return User(name, _first(headers, self._uids), tuple(groups), self._extra_of(headers))

    def _extra_of(self, headers: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for header, value in headers.items():
            lowered = header.lower()
            for prefix in self._extra:
                if lowered.startswith(prefix):
                    key = unquote(lowered.removeprefix(prefix))
                    found[key] = (*found.get(key, ()), value)
        return found


def _first(headers: Mapping[str, str], names: Iterable[str]) -> str:
    """Return the first value of the headers *names*, empty if there is none."""
    return next((value for name in names if (value := headers.get(name, ""))), "")


def values_of(headers: Mapping[str, str], name: str) -> Iterable[str]:
    """Return every value of the header *name*."""
    every = getattr(headers, "getall", None)
    if every is not None:
        values: Sequence[str] = every(name, ())
        return values
    return (headers[name],) if name in headers else ()
