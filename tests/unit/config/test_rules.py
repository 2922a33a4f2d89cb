"""Tests for the validation rules of the configuration."""

from __future__ import annotations

import ssl
from unittest.mock import Mock

import pytest

from nodeagent.base import tls
from nodeagent.base.logging import LoggingSettings, StreamOptions, VModule
from nodeagent.config.rules.node import logging_settings

WRONG = [
    # Serving
    ("address: nowhere", "address", "must be an IP address"),
    ("healthzBindAddress: 1.2.3", "healthzBindAddress", "must be an IP address"),
    ("port: 0", "port", "must be between 1 and 65535"),
    ("port: 65536", "port", "must be between 1 and 65535"),
    ("readOnlyPort: -1", "readOnlyPort", "must be between 1 and 65535, or 0 (off)"),
    ("readOnlyPort: 65536", "readOnlyPort", "must be between 1 and 65535, or 0 (off)"),
    ("healthzPort: 70000", "healthzPort", "must be between 1 and 65535, or 0 (off)"),
    ("streamingConnectionIdleTimeout: -1s", "streamingConnectionIdleTimeout", "must not be negative"),
    ("tlsCertFile: a.crt", "tlsCertFile", "needs tlsPrivateKeyFile"),
    ("tlsPrivateKeyFile: a.key", "tlsPrivateKeyFile", "needs tlsCertFile"),
    (
        "tlsMinVersion: TLS12",
        "tlsMinVersion",
        "must be one of '', VersionTLS10, VersionTLS11, VersionTLS12, VersionTLS13",
    ),
    (
        "tlsCipherSuites: [TLS_RSA_WITH_AES_128_CBC_SHA1]",
        "tlsCipherSuites[0]",
        "is not a known cipher suite; did you mean TLS_RSA_WITH_AES_128_CBC_SHA?",
    ),
    ("authorization: {mode: RBAC}", "authorization.mode", "must be one of AlwaysAllow, Webhook"),
    (
        "authorization: {webhook: {cacheAuthorizedTTL: -1s}}",
        "authorization.webhook.cacheAuthorizedTTL",
        "must not be negative",
    ),
    (
        "authorization: {webhook: {cacheUnauthorizedTTL: -1s}}",
        "authorization.webhook.cacheUnauthorizedTTL",
        "must not be negative",
    ),
    ("authentication: {webhook: {cacheTTL: -1s}}", "authentication.webhook.cacheTTL", "must not be negative"),
    (
        "authentication: {webhook: {enabled: false}}",
        "authentication",
        "must enable x509.clientCAFile, webhook or anonymous",
    ),
    (
        "serverTLSBootstrap: true\nfeatureGates: {RotateNodeAgentServerCertificate: false}",
        "serverTLSBootstrap",
        "needs the feature gate RotateNodeAgentServerCertificate",
    ),
    (
        "enableSystemLogQuery: true\nenableSystemLogHandler: false",
        "enableSystemLogQuery",
        "needs enableSystemLogHandler",
    ),
    (
        "enableSystemLogQuery: true\nfeatureGates: {NodeLogQuery: false}",
        "enableSystemLogQuery",
        "needs the feature gate NodeLogQuery",
    ),
    (
        "enableSystemLogQuery: true",
        "enableSystemLogQuery",
        "needs the feature gate NodeLogQuery, enabled by default since release 1.36",
    ),
    ("tlsCurvePreferences: [29, 23]", "tlsCurvePreferences", "must have at most one entry: the ssl module of this"),
    ("tlsCurvePreferences: [4588]", "tlsCurvePreferences[0]", "is not a supported curve; supported: 23, 24, 25, 29"),
    ("showHiddenMetricsForVersion: '1.27'", "showHiddenMetricsForVersion", "must be unset or 1.28"),
    # Pods, sync and registration
    ("staticPodURL: ftp://x/y", "staticPodURL", "must be an http or https URL"),
    ("staticPodURL: 'http://'", "staticPodURL", "must be an http or https URL"),
    ("staticPodURL: 'http://[x'", "staticPodURL", "must be an http or https URL"),
    (
        "staticPodURL: http://x\nstaticPodURLHeader: {'a b': [x]}",
        "staticPodURLHeader.a b",
        "must have the name of an HTTP header",
    ),
    (
        'staticPodURL: http://x\nstaticPodURLHeader: {A: ["x\\r\\nB: y"]}',
        "staticPodURLHeader.A",
        "must have values without line ends",
    ),
    ("syncFrequency: -1s", "syncFrequency", "must be longer than 0s"),
    ("fileCheckFrequency: -1s", "fileCheckFrequency", "must be longer than 0s"),
    ("httpCheckFrequency: -1s", "httpCheckFrequency", "must be longer than 0s"),
    (
        "nodeStatusUpdateFrequency: -1s\nnodeStatusReportFrequency: 1m",
        "nodeStatusUpdateFrequency",
        "must be longer than 0s",
    ),
    ("nodeStatusReportFrequency: -1s", "nodeStatusReportFrequency", "must be longer than 0s"),
    ("maxPods: -1", "maxPods", "must not be negative"),
    ("podsPerCore: -1", "podsPerCore", "must not be negative"),
    ("podsPerCore: 111", "podsPerCore", "must not exceed maxPods (110)"),
    ("podCIDR: 10.0.0.0", "podCIDR", "must be a CIDR such as 10.88.0.0/16, or one per IP family joined by a comma"),
    (
        "podCIDR: '10.0.0.0/8,10.1.0.0/16'",
        "podCIDR",
        "must be a CIDR such as 10.88.0.0/16, or one per IP family joined by a comma",
    ),
    ("nodeLeaseDurationSeconds: 0", "nodeLeaseDurationSeconds", "must be greater than 0"),
    ("nodeLeaseDurationSeconds: -5", "nodeLeaseDurationSeconds", "must be greater than 0"),
    ("nodeStatusMaxImages: -2", "nodeStatusMaxImages", "must be -1 or greater"),
    (
        "registerWithTaints: [{key: '-x', effect: NoSchedule}]",
        "registerWithTaints[0].key",
        "must be a qualified name such as example.com/gpu",
    ),
    (
        "registerWithTaints: [{key: x, value: 'a b', effect: NoSchedule}]",
        "registerWithTaints[0].value",
        "must be a label value",
    ),
    (
        "registerWithTaints: [{key: x, effect: Never}]",
        "registerWithTaints[0].effect",
        "must be one of NoSchedule, PreferNoSchedule, NoExecute",
    ),
    (
        "registerWithTaints: [{key: x, effect: NoExecute, timeAdded: '2024-01-01T00:00:00Z'}]",
        "registerWithTaints[0].timeAdded",
        "must be absent",
    ),
    (
        "registerWithTaints: [{key: x, effect: NoExecute}, {key: x, value: y, effect: NoExecute}]",
        "registerWithTaints[1]",
        "repeats the taint with effect NoExecute",
    ),
    ("shutdownGracePeriod: 500ms", "shutdownGracePeriod", "must be 0 or at least 1s"),
    ("address: 'fe80::1%eth0'", "address", "must be an IP address"),
    ("healthzBindAddress: 'fe80::1%1'", "healthzBindAddress", "must be an IP address"),
    ("shutdownGracePeriod: 999ms", "shutdownGracePeriod", "must be 0 or at least 1s"),
    ("shutdownGracePeriod: -1s", "shutdownGracePeriod", "must be 0 or at least 1s"),
    (
        "shutdownGracePeriod: 10s\nshutdownGracePeriodCriticalPods: 10s",
        "shutdownGracePeriodCriticalPods",
        "must be smaller than shutdownGracePeriod (10s)",
    ),
    (
        "shutdownGracePeriod: 10s\nshutdownGracePeriodCriticalPods: 20ms",
        "shutdownGracePeriodCriticalPods",
        "must be 0 or at least 1s",
    ),
    (
        "shutdownGracePeriod: 10s\nfeatureGates: {GracefulNodeShutdown: false}",
        "shutdownGracePeriod",
        "needs the feature gate GracefulNodeShutdown",
    ),
    (
        "shutdownGracePeriod: 10s\nshutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 10}]",
        "shutdownGracePeriodByPodPriority",
        "must be empty when shutdownGracePeriod or shutdownGracePeriodCriticalPods is set",
    ),
    (
        "shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 1}]\n"
        "featureGates: {GracefulNodeShutdown: false}",
        "shutdownGracePeriodByPodPriority",
        "needs the feature gate GracefulNodeShutdown",
    ),
    (
        "shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 1}]\n"
        "featureGates: {GracefulNodeShutdownBasedOnPodPriority: false}",
        "shutdownGracePeriodByPodPriority",
        "needs the feature gate GracefulNodeShutdownBasedOnPodPriority",
    ),
    (
        "shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: -1}]",
        "shutdownGracePeriodByPodPriority[0].shutdownGracePeriodSeconds",
        "must not be negative",
    ),
    (
        "shutdownGracePeriodByPodPriority:\n- {priority: 0, shutdownGracePeriodSeconds: 1}\n"
        "- {priority: 0, shutdownGracePeriodSeconds: 2}",
        "shutdownGracePeriodByPodPriority[1].priority",
        "is already used by an earlier entry",
    ),
    # Cgroups, runtime, kernel
    ("nodeagentCgroups: agent", "nodeagentCgroups", "must be an absolute cgroup name"),
    ("systemCgroups: system\ncgroupRoot: /", "systemCgroups", "must be an absolute cgroup name"),
    ("systemCgroups: /system", "systemCgroups", "needs cgroupRoot"),
    ("systemCgroups: /\ncgroupRoot: /", "systemCgroups", "must not be the root cgroup"),
    ("nodeagentCgroups: /", "nodeagentCgroups", "must not be the root cgroup"),
    ("cgroupRoot: pods", "cgroupRoot", "must be an absolute cgroup name"),
    ("cgroupRoot: /a/../b", "cgroupRoot", "must be an absolute cgroup name"),
    ("systemReservedCgroup: system.slice", "systemReservedCgroup", "must be an absolute cgroup name"),
    ("platformReservedCgroup: /", "platformReservedCgroup", "must not be the root cgroup"),
    (
        "cgroupsPerQOS: false\nenforceNodeAllocatable: []\n"
        "qosReserved: {memory: 50%}\nfeatureGates: {QOSReserved: true}",
        "qosReserved",
        "needs cgroupsPerQOS",
    ),
    ("cgroupsPerQOS: false\nenforceNodeAllocatable: []\npodPidsLimit: 5", "podPidsLimit", "needs cgroupsPerQOS"),
    ("cgroupDriver: docker", "cgroupDriver", "must be one of cgroupfs, systemd"),
    ("cpuCFSQuotaPeriod: 50ms", "cpuCFSQuotaPeriod", "needs the feature gate CustomCPUCFSQuotaPeriod"),
    (
        "cpuCFSQuotaPeriod: 2s\nfeatureGates: {CustomCPUCFSQuotaPeriod: true}",
        "cpuCFSQuotaPeriod",
        "must be between 1ms and 1s",
    ),
    (
        "cpuCFSQuotaPeriod: 0s\nfeatureGates: {CustomCPUCFSQuotaPeriod: true}",
        "cpuCFSQuotaPeriod",
        "must be between 1ms and 1s",
    ),
    ("memoryThrottlingFactor: 0", "memoryThrottlingFactor", "must be greater than 0 and at most 1"),
    ("memoryThrottlingFactor: 1.01", "memoryThrottlingFactor", "must be greater than 0 and at most 1"),
    (
        "memorySwap: {swapBehavior: LimitedSwap}",
        "memorySwap.swapBehavior",
        "needs the feature gate NodeSwap",
    ),
    (
        "memorySwap: {swapBehavior: Some}\nfeatureGates: {NodeSwap: true}",
        "memorySwap.swapBehavior",
        "must be one of '', NoSwap, LimitedSwap, UnlimitedSwap",
    ),
    ("runtimeRequestTimeout: -1s", "runtimeRequestTimeout", "must be longer than 0s"),
    ("imageServiceEndpoint: tcp://x:1", "imageServiceEndpoint", "must be a Unix socket such as"),
    ("containerLogMaxFiles: 1", "containerLogMaxFiles", "must be 2 or greater"),
    ("containerLogMaxSize: 10MB", "containerLogMaxSize", "is not a quantity"),
    ("maxOpenFiles: -1", "maxOpenFiles", "must not be negative"),
    ("oomScoreAdj: -1001", "oomScoreAdj", "must be between -1000 and 1000"),
    ("oomScoreAdj: 1001", "oomScoreAdj", "must be between -1000 and 1000"),
    ("allowedUnsafeSysctls: [vm.swappiness]", "allowedUnsafeSysctls[0]", "is not namespaced"),
    ("allowedUnsafeSysctls: ['kernel.*']", "allowedUnsafeSysctls[0]", "is not namespaced"),
    *(
        (f"allowedUnsafeSysctls: ['{name}']", "allowedUnsafeSysctls[0]", "is not the name of a sysctl")
        for name in ("net..x", "net.foo-", "net.bar..", "net.Foo", "net.*.x", f"net.{'a' * 250}")
    ),
    ("allowedUnsafeSysctls: ['net*']", "allowedUnsafeSysctls[0]", "is not namespaced"),
    # Images and limits
    ("imageGCHighThresholdPercent: 101", "imageGCHighThresholdPercent", "must be between 0 and 100"),
    ("imageGCLowThresholdPercent: -1", "imageGCLowThresholdPercent", "must be between 0 and 100"),
    (
        "imageGCLowThresholdPercent: 85",
        "imageGCLowThresholdPercent",
        "must be lower than imageGCHighThresholdPercent (85)",
    ),
    ("imageMinimumGCAge: -1s", "imageMinimumGCAge", "must not be negative"),
    ("imageMaximumGCAge: -1s", "imageMaximumGCAge", "must not be negative"),
    ("imageMaximumGCAge: 2m", "imageMaximumGCAge", "must be greater than imageMinimumGCAge (2m0s)"),
    (
        "imageMaximumGCAge: 1h\nfeatureGates: {ImageMaximumGCAge: false}",
        "imageMaximumGCAge",
        "needs the feature gate ImageMaximumGCAge",
    ),
    (
        "imageMaximumGCAge: 1h",
        "imageMaximumGCAge",
        "needs the feature gate ImageMaximumGCAge, enabled by default since release 1.30",
    ),
    (
        "imagePullCredentialsVerificationPolicy: Verify",
        "imagePullCredentialsVerificationPolicy",
        "must be one of '', NeverVerify, NeverVerifyPreloadedImages, NeverVerifyAllowlistedImages, AlwaysVerify",
    ),
    (
        "imagePullCredentialsVerificationPolicy: AlwaysVerify",
        "imagePullCredentialsVerificationPolicy",
        "needs the feature gate NodeAgentEnsureSecretPulledImages, enabled by default since release 1.35",
    ),
    (
        "preloadedImagesVerificationAllowlist: [a]",
        "preloadedImagesVerificationAllowlist",
        "must be empty unless imagePullCredentialsVerificationPolicy is NeverVerifyAllowlistedImages",
    ),
    (
        "imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages\n"
        "preloadedImagesVerificationAllowlist: ['a:1']",
        "preloadedImagesVerificationAllowlist[0]",
        "must have neither tag nor digest",
    ),
    ("memoryReservationPolicy: All", "memoryReservationPolicy", "must be one of None, TieredReservation"),
    ("memoryReservationPolicy: TieredReservation", "memoryReservationPolicy", "needs the feature gate MemoryQoS"),
    *(
        (f"userNamespaces: {{idsPerPod: {ids}}}", "userNamespaces.idsPerPod", "must be a multiple of 65536, from 65536")
        for ids in (0, -65536, 65537, 1 << 32)
    ),
    ("containerLogMaxWorkers: 0", "containerLogMaxWorkers", "must be 1 or greater"),
    ("containerLogMonitorInterval: 2s", "containerLogMonitorInterval", "must be at least 3s"),
    ("podLogsDir: logs", "podLogsDir", "must be an absolute path in canonical form"),
    ("podLogsDir: /var//logs", "podLogsDir", "must be an absolute path in canonical form"),
    ("podLogsDir: /var/lögs", "podLogsDir", "must be an absolute path in canonical form"),
    (
        "crashLoopBackOff: {maxContainerRestartPeriod: 60s}",
        "crashLoopBackOff.maxContainerRestartPeriod",
        "needs the feature gate NodeAgentCrashLoopBackOffMax, enabled by default since release 1.35",
    ),
    *(
        (
            f"crashLoopBackOff: {{maxContainerRestartPeriod: {period}}}\n"
            "featureGates: {NodeAgentCrashLoopBackOffMax: true}",
            "crashLoopBackOff.maxContainerRestartPeriod",
            "needs the feature gate NodeAgentCrashLoopBackOffMax",
        )
        for period in ("500ms", "301s")
    ),
    ("maxParallelImagePulls: 0\nserializeImagePulls: false", "maxParallelImagePulls", "must be at least 1"),
    ("maxParallelImagePulls: 1", "maxParallelImagePulls", "cannot be set while serializeImagePulls is true"),
    *(
        (f"{field}: -1", field, "must not be negative")
        for field in (
            "registryPullQPS",
            "registryBurst",
            "eventRecordQPS",
            "eventBurst",
            "platformAPIQPS",
            "platformAPIBurst",
        )
    ),
    # DNS, API, logging, tracing
    ("clusterDNS: [10.0.0.1, dns]", "clusterDNS[1]", "must be an IP address"),
    (
        "configMapAndSecretChangeDetectionStrategy: Poll",
        "configMapAndSecretChangeDetectionStrategy",
        "must be one of Get, Cache, Watch",
    ),
    ("contentType: text/html", "contentType", "must be one of application/vnd.kubernetes.protobuf, application/json"),
    ("logging: {format: xml}", "logging.format", "unknown log format"),
    ("logging: {verbosity: 2147483648}", "logging.verbosity", "must be between 0 and 2147483647"),
    ("logging: {flushFrequency: -5s}", "logging.flushFrequency", "must not be negative"),
    (
        "logging: {vmodule: [{filePattern: 'a=b', verbosity: 2}]}",
        "logging.vmodule[0].filePattern",
        "must contain neither '=' nor ','",
    ),
    (
        "logging: {format: json, vmodule: [{filePattern: a, verbosity: 2}]}",
        "logging.vmodule",
        "is supported only by the text format",
    ),
    (
        "logging: {options: {json: {splitStream: true}}}",
        "logging.options.json.splitStream",
        "needs the feature gate LoggingAlphaOptions",
    ),
    (
        "logging: {options: {json: {infoBufferSize: 3Gi}}}\nfeatureGates: {LoggingAlphaOptions: true}",
        "logging.options.json.infoBufferSize",
        "must be between 0 and 2147483648",
    ),
    (
        "logging: {format: json}\nfeatureGates: {LoggingBetaOptions: false}",
        "logging.format",
        "needs the feature gate LoggingBetaOptions",
    ),
    ("tracing: {samplingRatePerMillion: -1}", "tracing.samplingRatePerMillion", "must be between 0 and 1000000"),
    ("tracing: {samplingRatePerMillion: 1000001}", "tracing.samplingRatePerMillion", "must be between 0 and 1000000"),
    ("tracing: {endpoint: 'https://x:1'}", "tracing.endpoint", "must have no scheme, or one of dns, unix"),
    ("tracing: {}\nfeatureGates: {NodeAgentTracing: false}", "tracing", "needs the feature gate NodeAgentTracing"),
    # CPU, memory, topology, reservations
    ("cpuManagerPolicy: best", "cpuManagerPolicy", "must be one of none, static"),
    ("cpuManagerReconcilePeriod: -1s", "cpuManagerReconcilePeriod", "must be longer than 0s"),
    (
        "cpuManagerPolicyOptions: {full-pcpus-only: 'true'}",
        "cpuManagerPolicyOptions",
        "cannot be set with cpuManagerPolicy none",
    ),
    (
        "cpuManagerPolicy: static\ncpuManagerPolicyOptions: {full-pcpus: 'true'}",
        "cpuManagerPolicyOptions.full-pcpus",
        "is not a known option",
    ),
    (
        "cpuManagerPolicy: static\ncpuManagerPolicyOptions: {full-pcpus-only: 'maybe'}",
        "cpuManagerPolicyOptions.full-pcpus-only",
        'must be "true" or "false"',
    ),
    (
        "cpuManagerPolicy: static\ncpuManagerPolicyOptions: {align-by-socket: 'true'}",
        "cpuManagerPolicyOptions.align-by-socket",
        "needs the feature gate CPUManagerPolicyAlphaOptions",
    ),
    (
        "cpuManagerPolicy: static\ncpuManagerPolicyOptions: {align-by-socket: 'true'}\n"
        "topologyManagerPolicy: single-numa-node\nfeatureGates: {CPUManagerPolicyAlphaOptions: true}",
        "cpuManagerPolicyOptions.align-by-socket",
        "cannot be combined with topologyManagerPolicy single-numa-node",
    ),
    (
        "cpuManagerPolicy: static\ncpuManagerPolicyOptions: {strict-cpu-reservation: 'true'}",
        "cpuManagerPolicyOptions.strict-cpu-reservation",
        "needs release 1.32 (--compatibility-version)",
    ),
    (
        "topologyManagerPolicyOptions: {max-allowable-numa-nodes: '12'}",
        "topologyManagerPolicyOptions.max-allowable-numa-nodes",
        "needs release 1.31 (--compatibility-version)",
    ),
    (
        "cpuManagerPolicy: static\ncpuManagerPolicyOptions: {full-pcpus-only: 'true'}\n"
        "featureGates: {CPUManagerPolicyOptions: false}",
        "cpuManagerPolicyOptions",
        "needs the feature gate CPUManagerPolicyOptions",
    ),
    ("memoryManagerPolicy: all", "memoryManagerPolicy", "must be one of none, static"),
    (
        "memoryManagerPolicy: Static\nfeatureGates: {MemoryManager: false}",
        "memoryManagerPolicy",
        "needs the feature gate MemoryManager",
    ),
    (
        "memoryManagerPolicy: static",
        "reservedMemory",
        "must add up to memory in systemReserved, platformReserved and evictionHard: 100Mi",
    ),
    (
        "memoryManagerPolicy: Static\nreservedMemory: [{numaNode: 0, limits: {memory: 100Mi, hugepages-1Gi: 1Gi}}]\n"
        "systemReserved: {memory: 1Mi}",
        "reservedMemory",
        "must add up to memory in systemReserved, platformReserved and evictionHard: 101Mi",
    ),
    ("reservedMemory: [{numaNode: -1, limits: {memory: 1Mi}}]", "reservedMemory[0].numaNode", "must not be negative"),
    (
        "reservedMemory: [{numaNode: 0, limits: {cpu: '1'}}]",
        "reservedMemory[0].limits.cpu",
        "must be memory or hugepages-<size>",
    ),
    (
        "reservedMemory: [{numaNode: 0, limits: {memory: 0}}]",
        "reservedMemory[0].limits.memory",
        "must be greater than 0",
    ),
    (
        "reservedMemory: [{numaNode: 0, limits: {memory: 1Mi}}, {numaNode: 0, limits: {memory: 1Mi}}]",
        "reservedMemory[1].limits.memory",
        "is reserved twice on NUMA node 0",
    ),
    (
        "topologyManagerPolicy: strict",
        "topologyManagerPolicy",
        "must be one of none, best-effort, restricted, single-numa-node",
    ),
    ("topologyManagerScope: node", "topologyManagerScope", "must be one of container, pod"),
    (
        "topologyManagerPolicy: restricted\nfeatureGates: {TopologyManager: false}",
        "topologyManagerPolicy",
        "needs the feature gate TopologyManager",
    ),
    (
        "topologyManagerPolicyOptions: {closest: 'true'}",
        "topologyManagerPolicyOptions.closest",
        "is not a known option",
    ),
    (
        "topologyManagerPolicyOptions: {prefer-closest-numa-nodes: 'true'}\n"
        "featureGates: {TopologyManagerPolicyOptions: false}",
        "topologyManagerPolicyOptions",
        "needs the feature gate TopologyManagerPolicyOptions",
    ),
    (
        "topologyManagerPolicyOptions: {prefer-closest-numa-nodes: 'true'}\nfeatureGates: {TopologyManager: false}",
        "topologyManagerPolicyOptions",
        "needs the feature gate TopologyManager",
    ),
    ("qosReserved: {memory: 50%}", "qosReserved", "needs the feature gate QOSReserved"),
    ("qosReserved: {cpu: 50%}\nfeatureGates: {QOSReserved: true}", "qosReserved.cpu", "only memory can be reserved"),
    (
        "qosReserved: {memory: 101%}\nfeatureGates: {QOSReserved: true}",
        "qosReserved.memory",
        "must be a percentage from 0% to 100%",
    ),
    (
        "qosReserved: {memory: '50'}\nfeatureGates: {QOSReserved: true}",
        "qosReserved.memory",
        "must be a percentage from 0% to 100%",
    ),
    (
        "systemReserved: {hugepages-2Mi: 1Gi}",
        "systemReserved.hugepages-2Mi",
        "cannot be reserved; supported: cpu, memory, ephemeral-storage, pid",
    ),
    ("platformReserved: {pid: many}", "platformReserved.pid", "is not a quantity"),
    (
        "enforceNodeAllocatable: [system-reserved, system-reserved-compressible]\nsystemReservedCgroup: /s",
        "enforceNodeAllocatable[1]",
        "cannot be combined with the entry with or without -compressible",
    ),
    (
        "enforceNodeAllocatable: [platform-reserved-compressible]",
        "enforceNodeAllocatable[0]",
        "needs platformReservedCgroup",
    ),
    ("systemReserved: {cpu: -1m}", "systemReserved.cpu", "must not be negative"),
    ("platformReserved: {memory: lots}", "platformReserved.memory", "is not a quantity"),
    ("reservedSystemCPUs: 3-1", "reservedSystemCPUs", "is not a CPU list such as 0-3,8"),
    ("reservedSystemCPUs: a", "reservedSystemCPUs", "is not a CPU list such as 0-3,8"),
    (
        "reservedSystemCPUs: 0-1\nsystemReservedCgroup: /s",
        "reservedSystemCPUs",
        "cannot be combined with systemReservedCgroup or platformReservedCgroup",
    ),
    (
        "reservedSystemCPUs: 0-1\nplatformReservedCgroup: /p",
        "reservedSystemCPUs",
        "cannot be combined with systemReservedCgroup or platformReservedCgroup",
    ),
    ("cgroupsPerQOS: false", "enforceNodeAllocatable", "must be [] without cgroupsPerQOS"),
    ("cgroupsPerQOS: false\nenforceNodeAllocatable: [none]", "enforceNodeAllocatable", "must be [] without"),
    ("enforceNodeAllocatable: [pod]", "enforceNodeAllocatable[0]", "must be one of none, pods, system-reserved"),
    ("enforceNodeAllocatable: [pods, none]", "enforceNodeAllocatable[1]", "must be the only entry"),
    ("enforceNodeAllocatable: [system-reserved]", "enforceNodeAllocatable[0]", "needs systemReservedCgroup"),
    ("enforceNodeAllocatable: [kube-reserved]", "enforceNodeAllocatable[0]", "needs platformReservedCgroup"),
    ("reservedMemory: [{numaNode: 0}]", "reservedMemory[0].limits", "must have at least one entry"),
    (
        "reservedMemory: [{numaNode: -1, limits: {memory: 1Gi}}]",
        "reservedMemory[0].numaNode",
        "must not be negative",
    ),
    (
        "reservedMemory: [{numaNode: 0, limits: {cpu: 1}}]",
        "reservedMemory[0].limits.cpu",
        "must be memory or hugepages-<size>",
    ),
    (
        "reservedMemory: [{numaNode: 0, limits: {memory: 0}}]",
        "reservedMemory[0].limits.memory",
        "must be greater than 0",
    ),
    (
        "reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}, {numaNode: 0, limits: {memory: 1Gi}}]",
        "reservedMemory[1].limits.memory",
        "is reserved twice on NUMA node 0",
    ),
    # Eviction
    (
        "evictionHard: {memory.availabel: 1Gi}",
        "evictionHard[memory.availabel]",
        "is not a known eviction signal; did you mean memory.available?",
    ),
    ("evictionHard: {memory.available: 101%}", "evictionHard[memory.available]", "must be between 0% and 100%"),
    ("evictionHard: {memory.available: -1%}", "evictionHard[memory.available]", "must be between 0% and 100%"),
    ("evictionHard: {memory.available: x%}", "evictionHard[memory.available]", "is not a percentage such as 10%"),
    ("evictionHard: {memory.available: '0'}", "evictionHard[memory.available]", "must be greater than 0"),
    ("evictionHard: {pid.available: -5k}", "evictionHard[pid.available]", "must be greater than 0"),
    (
        "evictionSoft: {nodefs.available: 10%}",
        "evictionSoft[nodefs.available]",
        "needs an entry in evictionSoftGracePeriod",
    ),
    (
        "evictionSoftGracePeriod: {nodefs.available: -1s}",
        "evictionSoftGracePeriod[nodefs.available]",
        "must not be negative",
    ),
    (
        "evictionSoftGracePeriod: {nodefs.available: soon}",
        "evictionSoftGracePeriod[nodefs.available]",
        "is not a duration",
    ),
    ("evictionSoftGracePeriod: {x: 1s}", "evictionSoftGracePeriod.x", "is not a known eviction signal"),
    ("evictionMinimumReclaim: {imagefs.available: '-1'}", "evictionMinimumReclaim[imagefs.available]", "must not be"),
    ("evictionPressureTransitionPeriod: -1s", "evictionPressureTransitionPeriod", "must not be negative"),
    ("evictionMaxPodGracePeriod: -1", "evictionMaxPodGracePeriod", "must not be negative"),
]

RIGHT = [
    "address: '::'",
    "port: 1",
    "port: 65535",
    "readOnlyPort: 10255",
    "healthzPort: 0",
    "tlsMinVersion: VersionTLS13",
    "tlsCipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_AES_128_GCM_SHA256, TLS_RSA_WITH_RC4_128_SHA]",
    "authentication: {webhook: {enabled: false}, anonymous: {enabled: true}}",
    "authorization: {mode: AlwaysAllow}",
    "serverTLSBootstrap: true",
    "enableSystemLogQuery: true\nfeatureGates: {NodeLogQuery: true}",
    "tlsCurvePreferences: [24]",
    "showHiddenMetricsForVersion: '1.28'",
    "staticPodURL: https://u:p@host:8443/pods\nstaticPodURLHeader: {X-Key: [a, b]}",
    "podsPerCore: 110",
    "podCIDR: 10.88.0.0/16,fd00::/64",
    "podPidsLimit: -1",
    "cgroupsPerQOS: false\nenforceNodeAllocatable: []\npodPidsLimit: 0",
    "nodeStatusMaxImages: -1",
    "nodeStatusMaxImages: 0",
    "registerWithTaints: [{key: example.com/gpu, value: a, effect: NoSchedule}, {key: x, effect: NoExecute}]",
    "shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 10s",
    "shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 10}]",
    "systemCgroups: /system\ncgroupRoot: /",
    "cpuManagerPolicy: static",
    "cpuManagerPolicy: None",
    "cpuManagerPolicy: static\ncpuManagerPolicyOptions: {full-pcpus-only: 'true'}",
    "memoryManagerPolicy: Static\nreservedMemory: [{numaNode: 0, limits: {memory: 60Mi}},"
    " {numaNode: 1, limits: {memory: 50Mi, hugepages-2Mi: 4Mi}}]\nsystemReserved: {memory: 10Mi}",
    "memoryManagerPolicy: static\nevictionHard: {memory.available: 5%}",
    "topologyManagerPolicy: single-numa-node\ntopologyManagerScope: pod",
    "topologyManagerPolicyOptions: {prefer-closest-numa-nodes: 'true'}",
    "qosReserved: {memory: 100%}\nfeatureGates: {QOSReserved: true}",
    "cpuCFSQuotaPeriod: 1ms\nfeatureGates: {CustomCPUCFSQuotaPeriod: true}",
    "cpuCFSQuotaPeriod: 1s\nfeatureGates: {CustomCPUCFSQuotaPeriod: true}",
    "memorySwap: {swapBehavior: UnlimitedSwap}\nfeatureGates: {NodeSwap: true}",
    "memoryThrottlingFactor: 1",
    "shutdownGracePeriod: 1s",
    "shutdownGracePeriod: 3s\nshutdownGracePeriodCriticalPods: 1s",
    "oomScoreAdj: -1000",
    "imageGCHighThresholdPercent: 100",
    "imageMaximumGCAge: 1h\nfeatureGates: {ImageMaximumGCAge: true}",
    "memorySwap: {swapBehavior: NoSwap}",
    "imagePullCredentialsVerificationPolicy: NeverVerify",
    "userNamespaces: {idsPerPod: 65536}",
    "userNamespaces: {idsPerPod: 131072}",
    "crashLoopBackOff: {}",
    "podLogsDir: ''",
    "failCgroupV1: false\nsingleProcessOOMKill: true\nmergeDefaultEvictionSettings: true",
    "systemReserved: {pid: '100', ephemeral-storage: 1Gi}\nplatformReserved: {pid: 1k}",
    "enforceNodeAllocatable: [pods, kube-reserved-compressible]\nplatformReservedCgroup: /platform",
    "logging: {options: {text: {splitStream: true, infoBufferSize: 64Ki}}}\nfeatureGates: {LoggingAlphaOptions: true}",
    "serializeImagePulls: false\nmaxParallelImagePulls: 1",
    "registryPullQPS: 0",
    "eventRecordQPS: 0",
    "containerLogMaxSize: '-1'",
    "contentType: application/json",
    "allowedUnsafeSysctls: ['net.*', net/ipv4/conf/eth0.1/arp, 'kernel.msg*', fs.mqueue.msg_max, net.core.somaxconn]",
    "allowedUnsafeSysctls: ['net.ipv4.conf.eth0/1.*']",
    "allowedUnsafeSysctls: ['kernel.shmmax*', kernel.shm, kernel.msg]",
    "logging: {format: json}",
    "logging: {vmodule: [{filePattern: 'pod*', verbosity: 4}]}",
    "logging: {options: {json: {splitStream: true, infoBufferSize: 64Ki}}}\nfeatureGates: {LoggingAlphaOptions: true}",
    "tracing: {endpoint: 'localhost:4317', samplingRatePerMillion: 1000000}",
    "tracing: {endpoint: 'dns:///collector:4317'}",
    "tracing: {endpoint: '[::1]:4317'}",
    "systemReserved: {cpu: 500m, memory: 1Gi}\nplatformReserved: {ephemeral-storage: 1Gi}",
    "reservedSystemCPUs: 0-3,8",
    "enforceNodeAllocatable: []\ncgroupsPerQOS: false",
    "enforceNodeAllocatable: [none]",
    "enforceNodeAllocatable: [pods, pods, kube-reserved]\nplatformReservedCgroup: /platform",
    "enforceNodeAllocatable: [system-reserved]\nsystemReservedCgroup: /system.slice",
    "evictionHard: {memory.available: 0%, nodefs.available: 100%, pid.available: 1k}",
    "evictionHard: {}",
    "evictionSoft: {memory.available: 1.5Gi}\nevictionSoftGracePeriod: {memory.available: 1m30s}",
    "evictionMinimumReclaim: {nodefs.available: 500Mi, imagefs.available: 0%}",
    "imageServiceEndpoint: /run/images.sock",
]


@pytest.mark.parametrize(("text", "path", "rule"), WRONG, ids=lambda value: None)
def test_violated_rule_is_reported(rejected, text, path, rule):
    found = rejected(text)

    assert [violated for where, violated in found if where == path and violated.startswith(rule)], found


def test_curve_that_the_ssl_module_cannot_set_is_reported(rejected, monkeypatch):
    monkeypatch.setattr(ssl.SSLContext, "set_ecdh_curve", Mock(side_effect=ssl.SSLError("unknown group")))
    monkeypatch.setattr(tls, "SEVERAL_CURVES", False)

    found = rejected("tlsCurvePreferences: [29]")

    rule = "is X25519, to which the ssl module of this Python cannot restrict key exchanges"
    assert ("tlsCurvePreferences[0]", rule) in found


@pytest.mark.parametrize("text", RIGHT)
def test_valid_configuration_is_accepted(load_text, text):
    load_text(text)


def test_hairpin_mode_must_exist(load_text, rejected):
    for mode in ("promiscuous-bridge", "hairpin-veth", "none"):
        assert load_text(f"hairpinMode: {mode}").config.hairpin_mode == mode

    assert rejected("hairpinMode: bridge") == [("hairpinMode", "must be one of promiscuous-bridge, hairpin-veth, none")]


@pytest.mark.row("config.logging", "type.LoggingConfiguration.format", "type.LoggingConfiguration.flushFrequency")
@pytest.mark.row("type.LoggingConfiguration.verbosity", "type.LoggingConfiguration.options", "type.FormatOptions.json")
@pytest.mark.row("type.JSONOptions.splitStream", "type.JSONOptions.infoBufferSize")
def test_logging_settings_have_the_configured_values(load_text):
    json = "format: json, options: {json: {splitStream: true, infoBufferSize: 64Ki}}"
    gate = "featureGates: {LoggingAlphaOptions: true}\n"

    loaded = load_text(f"{gate}logging: {{flushFrequency: 3s, verbosity: 4, {json}}}")

    options = StreamOptions(split_stream=True, info_buffer_bytes=65536)
    expected = LoggingSettings(format="json", flush_seconds=3.0, verbosity=4, json=options)
    assert logging_settings(loaded.config.logging) == expected


@pytest.mark.row("type.LoggingConfiguration.vmodule")
def test_logging_settings_have_file_thresholds(load_text):
    loaded = load_text("logging: {vmodule: [{filePattern: pod*, verbosity: 5}, {filePattern: main, verbosity: 2}]}")

    assert logging_settings(loaded.config.logging).vmodule == (VModule("pod*", 5), VModule("main", 2))


@pytest.mark.row("config.iptablesMasqueradeBit", "config.iptablesDropBit")
@pytest.mark.parametrize("field", ["iptablesMasqueradeBit", "iptablesDropBit"])
def test_firewall_bits_are_validated_and_cause_a_warning(load_text, rejected, field):
    assert f"{field} is deprecated and has no effect" in load_text(f"{field}: 31").warnings
    assert load_text(f"{field}: 0").warnings
    assert not load_text("").warnings

    for wrong in (-1, 32):
        assert rejected(f"{field}: {wrong}") == [(field, "must be between 0 and 31")]


@pytest.mark.row("config.featureGates")
def test_feature_gates_change_the_allowed_settings(load_text, rejected):
    needing = "cpuCFSQuotaPeriod: 10ms\n"

    assert rejected("featureGates: {CPUManager: false}") == [("featureGates.CPUManager", "is locked to true")]
    assert rejected(needing)
    loaded = load_text(f"{needing}featureGates: {{CustomCPUCFSQuotaPeriod: true}}")
    assert loaded.gates.enabled("CustomCPUCFSQuotaPeriod")
    assert load_text("featureGates: {AllAlpha: true}\n" + needing).gates.enabled("CustomCPUCFSQuotaPeriod")
    assert rejected("featureGates: {NodeSwap: 'yes'}") == [("featureGates.NodeSwap", "must be true or false")]


def test_kubelet_name_of_a_gate_is_accepted(load_text):
    gates = load_text("featureGates: {KubeletTracing: false}").gates

    assert not gates.enabled("NodeAgentTracing")


def test_runtime_endpoint_is_required(rejected):
    header = "apiVersion: nodeagent.config.k8s.io/v1beta1\nkind: NodeAgentConfiguration\n"

    assert rejected("", header=header) == [
        ("containerRuntimeEndpoint", "must be set, such as unix:///run/containerd/containerd.sock")
    ]
    assert rejected("containerRuntimeEndpoint: tcp://host:1\n", header=header)[0][0] == "containerRuntimeEndpoint"


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("tlsCipherSuites: [TLS_RSA_WITH_RC4_128_SHA]", "TLS_RSA_WITH_RC4_128_SHA is insecure"),
        ("tlsCipherSuites: [TLS_AES_128_GCM_SHA256]", "listing it has no effect"),
        ("imageServiceEndpoint: /run/i.sock", "use unix:///run/i.sock"),
        ("evictionHard: {containerfs.available: 10%}", "the signal is computed from the others"),
        ("registerNode: false\nregisterWithTaints: [{key: a, effect: NoExecute}]", "no effect without registerNode"),
        ("staticPodURLHeader: {A: [b]}", "no effect without staticPodURL"),
        ("featureGates: {ExecProbeTimeout: true}", "Setting GA feature gate ExecProbeTimeout=true."),
        ("maxPods: 0", "maxPods: 0 means unset; the default 110 is used"),
    ],
)
def test_accepted_setting_causes_a_warning(load_text, text, warning):
    assert any(warning in text_of_warning for text_of_warning in load_text(text).warnings)


@pytest.mark.parametrize(
    ("behavior", "release", "warned"),
    [("UnlimitedSwap", "1.29", False), ("UnlimitedSwap", "1.30", True), ("LimitedSwap", "1.30", False)],
)
def test_unlimited_swap_is_not_part_of_later_releases(load_text, behavior, release, warned):
    text = f"memorySwap: {{swapBehavior: {behavior}}}\nfeatureGates: {{NodeSwap: true}}"

    warnings = load_text(text, f"--compatibility-version={release}").warnings

    expected = "memorySwap.swapBehavior: UnlimitedSwap is not part of releases since 1.30; use LimitedSwap"
    assert (expected in warnings) is warned
