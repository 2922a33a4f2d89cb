"""Tests for the admission of sysctls."""

from __future__ import annotations

import pytest

from nodeagent.testing import admit, load_plugin, make_config, make_context, make_pod
from nodeagent_plugins import sysctls
from nodeagent_plugins.sysctls import kernel_version, safe_sysctls


async def decision(tmp_path, *names, allowed=(), **spec):
    context = make_context(tmp_path, config=make_config(allowed_unsafe_sysctls=tuple(allowed)))
    requested = {"sysctls": [{"name": name, "value": "1"} for name in names]}
    rejection = await admit(load_plugin(sysctls, context=context), make_pod(security_context=requested, **spec))
    return rejection and (rejection.reason, rejection.message)


async def test_safe_sysctls_are_admitted(tmp_path):
    assert (
        await decision(tmp_path, "kernel.shm_rmid_forced", "net.ipv4.tcp_syncookies", "net/ipv4/tcp_syncookies") is None
    )


@pytest.mark.row("config.allowedUnsafeSysctls")
async def test_unsafe_sysctls_are_rejected(tmp_path):
    expected = ("SysctlForbidden", 'forbidden sysctl: "kernel.msgmax" not allowlisted')
    assert await decision(tmp_path, "net.ipv4.tcp_syncookies", "kernel.msgmax") == expected
    assert await decision(tmp_path, "kernel/msgmax") == expected


@pytest.mark.row("config.allowedUnsafeSysctls")
@pytest.mark.parametrize("allowed", ["kernel.msgmax", "kernel.msg*", "kernel/msg*"])
async def test_allowed_unsafe_sysctls_are_admitted(tmp_path, allowed):
    assert await decision(tmp_path, "kernel.msgmax", allowed=[allowed]) is None


@pytest.mark.parametrize("name", ["net.foo-", "net.bar..", "net.", "net.ipv4.Foo", f"net.{'a' * 250}"])
async def test_invalid_name_is_rejected_despite_matching_prefix(tmp_path, name):
    expected = ("SysctlForbidden", f'forbidden sysctl: "{name}" not allowlisted')
    assert await decision(tmp_path, name, allowed=["net.*"]) == expected


@pytest.mark.parametrize("name", ["net.ipv4.conf.eth0/1.rp_filter", "net/ipv4/conf/eth0.1/rp_filter"])
async def test_dot_can_be_part_of_a_name(tmp_path, name):
    assert await decision(tmp_path, name, allowed=["net.ipv4.conf.eth0/1.*"]) is None
    assert await decision(tmp_path, name, allowed=["net.ipv4.conf.eth0.*"]) is not None


async def test_sysctls_of_host_namespaces_are_rejected(tmp_path):
    rejected = await decision(tmp_path, "net.ipv4.tcp_syncookies", host_network=True)
    assert rejected[1].endswith("not allowed with host Net enabled")
    rejected = await decision(tmp_path, "kernel.shm_rmid_forced", host_ipc=True)
    assert rejected[1].endswith("not allowed with host IPC enabled")


async def test_pod_without_sysctls_is_admitted(tmp_path):
    assert await decision(tmp_path) is None


def test_safe_list_depends_on_the_kernel():
    assert len(safe_sysctls((3, 10))) == 5
    assert len(safe_sysctls((4, 5))) == 9
    assert len(safe_sysctls(kernel_version("6.1.0-13-amd64"))) == 10
