"""Validation of paths that start with a domain, such as the names of controllers."""

from __future__ import annotations

import re

from apiserver_stub.apimachinery.status import Cause, invalid_each, invalid_value, required
from nodeagent.base.names import subdomain_problems

_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_path = re.compile(_PATH)


def validate_domain_path(text: str, field: str) -> list[Cause]:
    """Return the errors in a path that starts with a domain, such as ``example.com/name``."""
    if not text:
        return [required(field)]
    host, _, path = text.partition("/")
    if not host or not path:
        return [invalid_value(field, text, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    causes = invalid_each(field, host, subdomain_problems(host))
    if not _path.fullmatch(path):
        causes.append(invalid_value(field, path, f"Invalid path (regex used for validation is '{_PATH}')"))
    return causes
