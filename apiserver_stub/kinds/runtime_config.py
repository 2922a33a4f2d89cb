"""Selection of served API groups, versions and resources (spec: runtime-config.*).

``--runtime-config`` has ``KEY=BOOL`` pairs; the most specific key that matches a resource takes precedence:
``api/all`` < ``api/ga``, ``api/beta``, ``api/alpha`` < ``GROUP/VERSION`` < ``GROUP/VERSION/RESOURCE``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, partial

from nodeagent.base.identity import Identity
from nodeagent.base.release import OLDEST, Release

_STAGES = {"api/ga": r"v\d+", "api/beta": r"v\d+beta\d+", "api/alpha": r"v\d+alpha\d+"}
_TRUE = frozenset(["", "1", "t", "T", "TRUE", "true", "True"])
_FALSE = frozenset(["0", "f", "F", "FALSE", "false", "False"])
_BROAD = ("api/all", *_STAGES)
_IGNORED = "api/legacy"
_SERVED_BETA = ("flowcontrol", "v1beta3")


def parse_runtime_config(text: str) -> dict[str, str]:
    """Parse ``a=true,b``; a key without a value means true."""
    pairs = (item.strip().partition("=") for item in text.split(",") if item.strip())
    return {key.strip(): value.strip() if equals else "true" for key, equals, value in pairs}


def errors(settings: Mapping[str, str], identity: Identity, release: Release = OLDEST) -> list[str]:
    """Return the command-line errors of *settings*."""
    problems, built_in = [], _built_in(identity, release)
    for key, value in settings.items():
        if _value(value) is None:
            problems.append(
                f'--runtime-config: invalid value of {key}: {value}, err: strconv.ParseBool: parsing "{value}": '
                "invalid syntax"
            )
        if key in _BROAD or key == _IGNORED:
            continue
        group, version, _ = _split(key)
        if not version:
            problems.append(f"--runtime-config invalid key {key}")
        elif group and group not in built_in:
            problems.append(f"--runtime-config: unknown api groups {group}")
        elif version not in (built_in[group] if group else ("v1",)):
            problems.append(f"--runtime-config: group version {key} that has not been registered")
    if settings.keys() == {"api/all"} and _value(settings["api/all"]) is False:
        problems.append("--runtime-config: invalid key with only api/all=false")
    elif not problems and not enabled(settings, "", "v1", "pods"):
        problems.append("--runtime-config: the core group v1 cannot be switched off")
    return problems


def enabled(settings: Mapping[str, str], group: str, version: str, resource: str) -> bool:
    """Return whether *resource* of *group* and *version* is served.

    By default, stable versions are served, and the beta versions that are older than this default.
    """
    stage = next(name for name, pattern in _STAGES.items() if re.fullmatch(pattern, version))
    decided = stage == "api/ga" or (group.partition(".")[0], version) == _SERVED_BETA
    group_version = f"{group}/{version}" if group else f"api/{version}"
    keys = [
        "api/all",
        stage,
        *([] if group else [version, f"{version}/{resource}"]),
        group_version,
        f"{group_version}/{resource}",
    ]
    for key in keys:
        if key in settings:
            decided = bool(_value(settings[key]))
    return decided


def is_version(text: str) -> bool:
    """Return whether *text* is the name of an API version."""
    return any(re.fullmatch(pattern, text) for pattern in _STAGES.values())


def _split(key: str) -> tuple[str, str, str]:
    """Return the group, version and resource in *key*; the version is empty if *key* is invalid."""
    parts = key.split("/")
    if parts[0] == "api" or re.fullmatch(r"v\d\w*", parts[0]):
        parts = ["", *(parts[1:] if parts[0] == "api" else parts)]
    if len(parts) not in (2, 3) or not all(parts[1:]):
        return "", "", ""
    return parts[0], parts[1], parts[2] if len(parts) == 3 else ""


def _value(text: str) -> bool | None:
    return True if text in _TRUE else False if text in _FALSE else None


@cache
def _built_in(identity: Identity, release: Release) -> dict[str, tuple[str, ...]]:
    """Return the groups and versions of *release*, which are valid in keys even if they are not served."""
    found: dict[str, tuple[str, ...]] = {}
    for line in _BUILT_IN.strip().splitlines():
        short, *entries = line.split()
        group = short if short in _PLAIN_GROUPS else identity.group(short)
        versions = tuple(version for version in map(partial(_version_at, release), entries) if version)
        if versions:
            found[group] = versions
    return found


def _version_at(release: Release, entry: str) -> str:
    """Return the version of *entry* (``VERSION[@FIRST-LAST]``, minor releases) if *release* has it, else empty."""
    version, _, minors = entry.partition("@")
    first, _, last = minors.partition("-")
    return version if int(first or 0) <= release.minor <= int(last or 999) else ""


_PLAIN_GROUPS = frozenset(["apps", "autoscaling", "batch", "policy"])
_BUILT_IN = """
admissionregistration v1 v1beta1 v1alpha1
apiextensions v1
apiregistration v1
apps v1
authentication v1 v1beta1@0-34 v1alpha1@0-31
authorization v1
autoscaling v1 v2
batch v1
certificates v1 v1beta1@33 v1alpha1
coordination v1 v1beta1@33 v1alpha1@31-31 v1alpha2@32
discovery v1
events v1
flowcontrol.apiserver v1 v1beta3@0-31
internal.apiserver v1alpha1
networking v1 v1beta1@31 v1alpha1@0-33
node v1
policy v1
rbac.authorization v1
resource v1@34 v1beta2@33 v1beta1@32 v1alpha3@31 v1alpha2@0-30
scheduling v1 v1alpha1@35-35 v1alpha2@36
storage v1 v1beta1 v1alpha1@0-35
storagemigration v1beta1@35 v1alpha1@30-34
"""
