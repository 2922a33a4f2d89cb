"""CDI specs: format, versions and validation of one file. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from nodeagent.base import yamlsafe
from nodeagent.base.cdi import names
from nodeagent.base.nulls import convert

HOOKS = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
VERSIONS = ("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
MAX_BYTES = 4 * 1024 * 1024
NO_PERMISSIONS = "none"
_MAX_CLOSID = 4095
_PERMISSIONS = re.compile(r"[rwm]*")


class CdiError(ValueError):
    """The file is not a valid CDI spec, or a device cannot be resolved."""


class _Strict(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Object of a spec; unknown fields are rejected, because they belong to a later version."""


class DeviceNode(_Strict):
    path: str
    host_path: str = ""
    type: str = ""
    major: int = 0
    minor: int = 0
    file_mode: int | None = None
    permissions: str = ""
    uid: int | None = None
    gid: int | None = None


class Mount(_Strict):
    host_path: str
    container_path: str
    type: str = ""
    options: tuple[str, ...] = ()


class Hook(_Strict):
    hook_name: str
    path: str
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    timeout: int | None = None
    """Seconds."""


class IntelRdt(_Strict):
    clos_id: str = msgspec.field(default="", name="closID")
    l3_cache_schema: str = msgspec.field(default="", name="l3CacheSchema")
    mem_bw_schema: str = ""
    schemata: tuple[str, ...] = ()
    enable_monitoring: bool = False


class NetDevice(_Strict):
    host_interface_name: str
    name: str


class ContainerEdits(_Strict):
    """Changes of the OCI configuration of a container."""

    env: tuple[str, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    net_devices: tuple[NetDevice, ...] = ()
    mounts: tuple[Mount, ...] = ()
    hooks: tuple[Hook, ...] = ()
    intel_rdt: IntelRdt | None = None
    additional_gids: tuple[int, ...] = ()

    def __add__(self, other: ContainerEdits) -> ContainerEdits:
        return ContainerEdits(
            env=self.env + other.env,
            device_nodes=self.device_nodes + other.device_nodes,
            net_devices=self.net_devices + other.net_devices,
            mounts=self.mounts + other.mounts,
            hooks=self.hooks + other.hooks,
            intel_rdt=self.intel_rdt if other.intel_rdt is None else other.intel_rdt,
            additional_gids=self.additional_gids + other.additional_gids,
        )


class Device(_Strict):
    name: str
    container_edits: ContainerEdits = msgspec.field(default_factory=ContainerEdits)
    annotations: dict[str, str] = {}


class Spec(_Strict):
    """Content of one file."""

    cdi_version: str
    kind: str
    devices: tuple[Device, ...]
    container_edits: ContainerEdits = msgspec.field(default_factory=ContainerEdits)
    """Applied once if any device of the file is requested."""
    annotations: dict[str, str] = {}


def parse_spec(text: bytes) -> Spec:
    """Return the spec in *text*, YAML or JSON.

    :raises CdiError: it is invalid; the error names field, value and rule.
    """
    try:
        content = yamlsafe.load(text, yamlsafe.Limits(max_bytes=MAX_BYTES))
        spec = convert(content, Spec)
    except (yamlsafe.YamlError, msgspec.ValidationError) as error:
        raise CdiError(str(error)) from error
    for problem in _problems(spec):
        raise CdiError(problem)
    return spec


def _problems(spec: Spec) -> Iterator[str]:
    version = spec.cdi_version.removeprefix("v")
    if version not in VERSIONS:
        yield f'cdiVersion: "{spec.cdi_version}": must be one of {", ".join(VERSIONS)}'
    if error := names.kind_error(spec.kind):
        yield f'kind: "{spec.kind}": {error}'
    if not spec.devices:
        yield "devices: must have at least one device"
    yield from _edit_problems(spec.container_edits, "containerEdits")
    seen = set()
    for number, device in enumerate(spec.devices):
        field = f"devices[{number}]"
        if error := names.device_error(device.name):
            yield f'{field}.name: "{device.name}": {error}'
        if device.name in seen:
            yield f'{field}.name: duplicate value: "{device.name}"'
        seen.add(device.name)
        if device.container_edits == ContainerEdits():
            yield f"{field}.containerEdits: must not be empty"
        yield from _edit_problems(device.container_edits, f"{field}.containerEdits")
    required, feature = required_version(spec)
    if version in VERSIONS and VERSIONS.index(version) < VERSIONS.index(required):
        yield f'cdiVersion: "{spec.cdi_version}": must be at least {required} for {feature}'


def required_version(spec: Spec) -> tuple[str, str]:
    """Return the oldest version that has all features of *spec*, and the feature that requires it."""
    edits = [spec.container_edits, *(device.container_edits for device in spec.devices)]
    rdt = [one.intel_rdt for one in edits if one.intel_rdt is not None]
    features = (
        ("1.1.0", "netDevices", any(one.net_devices for one in edits)),
        ("1.1.0", "schemata and enableMonitoring", any(one.schemata or one.enable_monitoring for one in rdt)),
        ("0.7.0", "intelRdt", bool(rdt)),
        ("0.7.0", "additionalGids", any(one.additional_gids for one in edits)),
        ("0.6.0", "annotations", bool(spec.annotations or any(device.annotations for device in spec.devices))),
        ("0.6.0", "a class with dots", "." in spec.kind.partition("/")[2]),
        ("0.5.0", "device names that start with a digit", any(device.name[:1].isdigit() for device in spec.devices)),
        ("0.5.0", "hostPath", any(node.host_path for one in edits for node in one.device_nodes)),
        ("0.4.0", "types of mounts", any(mount.type for one in edits for mount in one.mounts)),
    )
    return next(((version, feature) for version, feature, used in features if used), ("0.1.0", ""))


def _edit_problems(edits: ContainerEdits, field: str) -> Iterator[str]:
    yield from _env_problems(edits.env, f"{field}.env")
    for number, node in enumerate(edits.device_nodes):
        yield from _node_problems(node, f"{field}.deviceNodes[{number}]")
    for number, mount in enumerate(edits.mounts):
        for name, path in (("hostPath", mount.host_path), ("containerPath", mount.container_path)):
            if not path:
                yield f"{field}.mounts[{number}].{name}: must not be empty"
    for number, hook in enumerate(edits.hooks):
        yield from _hook_problems(hook, f"{field}.hooks[{number}]")
    yield from _net_problems(edits.net_devices, f"{field}.netDevices")
    if edits.intel_rdt is not None:
        closid = edits.intel_rdt.clos_id
        if closid != "/" and (closid in (".", "..") or len(closid) > _MAX_CLOSID or "/" in closid or "\n" in closid):
            yield f'{field}.intelRdt.closID: "{closid[:100]}": must be a file name or /'
    for number, gid in enumerate(edits.additional_gids):
        yield from _id_problems(gid, f"{field}.additionalGids[{number}]")


def _node_problems(node: DeviceNode, field: str) -> Iterator[str]:
    if not node.path:
        yield f"{field}.path: must not be empty"
    if node.type not in ("", "b", "c", "u", "p"):
        yield f'{field}.type: "{node.type}": must be one of b, c, u, p'
    if node.permissions != NO_PERMISSIONS and not _PERMISSIONS.fullmatch(node.permissions):
        yield f'{field}.permissions: "{node.permissions}": must consist of the letters r, w and m, or be none'
    for name, number in (("major", node.major), ("minor", node.minor)):
        yield from _id_problems(number, f"{field}.{name}")
    for name, owner in (("uid", node.uid), ("gid", node.gid), ("fileMode", node.file_mode)):
        if owner is not None:
            yield from _id_problems(owner, f"{field}.{name}")


def _hook_problems(hook: Hook, field: str) -> Iterator[str]:
    if hook.hook_name not in HOOKS:
        yield f'{field}.hookName: "{hook.hook_name}": must be one of {", ".join(HOOKS)}'
    if not hook.path.startswith("/"):
        yield f'{field}.path: "{hook.path}": must be an absolute path'
    if hook.timeout is not None and hook.timeout <= 0:
        yield f"{field}.timeout: {hook.timeout}: must be greater than 0"
    yield from _env_problems(hook.env, f"{field}.env")


def _net_problems(devices: tuple[NetDevice, ...], field: str) -> Iterator[str]:
    for name, values in (
        ("hostInterfaceName", [device.host_interface_name for device in devices]),
        ("name", [device.name for device in devices]),
    ):
        for number, value in enumerate(values):
            if not value:
                yield f"{field}[{number}].{name}: must not be empty"
            elif value in values[:number]:
                yield f'{field}[{number}].{name}: duplicate value: "{value}"'


def _env_problems(env: tuple[str, ...], field: str) -> Iterator[str]:
    for number, entry in enumerate(env):
        if entry.find("=") <= 0 or "\0" in entry:
            yield f'{field}[{number}]: "{entry[:100]}": must have the form NAME=VALUE'


def _id_problems(number: int, field: str) -> Iterator[str]:
    if not 0 <= number < 2**32:
        yield f"{field}: {number}: must be between 0 and 4294967295"
