"""Random query parameters and headers. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

from tests.api_fuzz.values import Values

_SELECTORS = (
    "app=web",
    "app!=web",
    "app in (a,b)",
    "app notin (a)",
    "!app",
    "app",
    "a=b,c=d",
    "a>1",
    "a<x",
    "app in (",
    ",",
    "=",
    "example.com/name=x",
    "a==b",
    "metadata.name=full",
    "metadata.namespace!=fuzz-a",
    "spec.nodeName=",
    "status.phase=Running",
    "spec.color=red",
    "type=Opaque",
    "involvedObject.name=x",
    "reason=a\\,b",
    "metadata.name==a,metadata.name!=b",
    "unknown=x",
)
_VERSIONS = ("0", "", "1", "-1", "abc", "18446744073709551616", "1.5", "007", "2", "9" * 40)
_FUTURE = "99999999999"
"""Version that the server waits for, seconds long."""
_MATCHES = ("", "Exact", "NotOlderThan", "x")
_TOKENS = (
    "",
    "x",
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0",
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiIn0",
    "e30",
    "bnVsbA",
    "W10",
    "=",
)
_ACCEPTED = (
    "application/json",
    "application/json",
    "*/*",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/vnd.kubernetes.protobuf,application/json",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
    "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
    "application/json;as=Unknown;v=v1;g=x",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/json;stream=watch",
    "application/cbor",
    "text/html",
    "text/plain;q=0.5,*/*;q=0.1",
    "application/json;q=nan",
    "",
    ";",
    "a/b/c",
)
WARM_UP = ("application/json", *_ACCEPTED[3:12])
"""Values of the header ``Accept``, one for each representation of objects."""
_BOOLEANS = ("true", "false", "1", "0", "", "x", "TRUE", "yes")


def accepted(values: Values, verb: str = "") -> str:
    """Return a value of the header ``Accept``."""
    if not verb or values.chance(0.02):
        return values.choice.choice(_ACCEPTED)
    return values.choice.choice(_ACCEPTED[:6] if values.chance(0.75) else _ACCEPTED[:12])


def headers(values: Values) -> list[tuple[str, str]]:
    """Return rare headers, mostly none."""
    if values.chance(0.9):
        return []
    name, content = values.choice.choice(
        (
            ("Accept-Encoding", "gzip"),
            ("Accept-Encoding", "br;q=1, gzip;q=nan"),
            ("Audit-ID", "a" * 70),
            ("Content-Encoding", "gzip"),
            ("Content-Encoding", "x"),
            ("Expect", "100-continue"),
            ("If-Match", '"x"'),
            ("If-None-Match", "*"),
            ("If-Modified-Since", "Mon, 99 Foo 2024"),
            ("Impersonate-User", "system:node:node-1"),
            ("Impersonate-User", "jane"),
            ("Impersonate-User", ""),
            ("Impersonate-Group", "a"),
            ("Impersonate-Extra-a%zz", "b"),
            ("Impersonate-Uid", "1"),
            ("Origin", "https://example.com"),
            ("Range", "bytes=0-1"),
            ("Timeout", "1s"),
            ("Upgrade", "websocket"),
            ("Upgrade", "SPDY/3.1"),
            ("User-Agent", "curl/8"),
            ("Warning", '299 - "x"'),
            ("X-Forwarded-For", "::1"),
            ("X-Remote-User", "admin"),
            ("traceparent", "00-zz-zz-01"),
        )
    )
    found = [(name, content)]
    if name == "Upgrade":
        found += [
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "QUJDREVGR0hJSktMTU5PUA=="),
        ]
    return found


def query(values: Values, verb: str, subresource: str = "", *, dry_run: bool = False) -> str:
    """Return the query of a request, empty or starting with ``?``.

    :param dry_run: the request must have no effect.
    """
    choose = values.choice.choice
    sources: dict[str, Callable[[], object]] = {
        "pretty": lambda: choose(_BOOLEANS),
        "timeout": lambda: choose(("1s", "1ms", "0s", "-1s", "x", "100h", "9999999999h")),
    }
    share = 0.06
    if verb in ("list", "watch", "deletecollection", "get"):
        share = 0.22
        sources |= {
            "labelSelector": lambda: choose(_SELECTORS),
            "fieldSelector": lambda: choose(_SELECTORS),
            "limit": lambda: choose(("1", "2", "500", "0", "-1", "x", "9" * 20)),
            "continue": lambda: choose(_TOKENS),
            "resourceVersion": lambda: choose(_VERSIONS) if values.chance(0.98) else _FUTURE,
            "resourceVersionMatch": lambda: choose(_MATCHES),
            "sendInitialEvents": lambda: choose(_BOOLEANS),
            "allowWatchBookmarks": lambda: choose(_BOOLEANS),
        }
    else:
        sources |= {
            "dryRun": lambda: choose(("All", "", "x")),
            "fieldManager": lambda: choose(("a", "b", "", "x" * 200, "\n")),
            "fieldValidation": lambda: choose(("Strict", "Warn", "Ignore", "x")),
            "force": lambda: choose(_BOOLEANS),
            "gracePeriodSeconds": lambda: choose(("0", "1", "-1", "x")),
            "propagationPolicy": lambda: choose(("Orphan", "Foreground", "Background", "x")),
            "orphanDependents": lambda: choose(_BOOLEANS),
        }
    if subresource:
        sources |= dict.fromkeys(
            ("container", "command", "tailLines", "limitBytes", "sinceSeconds", "sinceTime", "stdin", "ports"),
            values.string,
        )
    fields = [(name, str(source())) for name, source in sources.items() if values.chance(share)]
    if values.chance(0.02):
        fields.append((values.string(), values.string()))
    if verb == "patch" and values.chance(0.8):
        fields.append(("fieldManager", "fuzz"))
    if verb == "watch":
        fields = [field for field in fields if field[0] != "continue" or values.chance(0.1)]
        fields += [
            ("watch", choose(("true", "1", "x"))),
            ("timeoutSeconds", choose(("1", "1", "0", "x", "9999999999"))),
        ]
    if dry_run:
        fields = [field for field in fields if field[0] != "dryRun"] + [("dryRun", "All")]
    if not fields:
        return ""
    return "?" + "&".join(f"{_quoted(name)}={_quoted(value)}" for name, value in fields)


def _quoted(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe="")
