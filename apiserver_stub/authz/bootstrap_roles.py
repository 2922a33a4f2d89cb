"""The default RBAC roles for users, nodes and other components of the control plane.

A rule is a line: verbs, API groups, resources and optionally names; or verbs and paths. Groups of the API domain are
written without the domain, and ``core`` is the empty group. ``{label}``, ``{system}`` and ``{certificates}`` are
replaced by names that a deployment may configure.
"""

from __future__ import annotations

from collections.abc import Mapping

from nodeagent.base.release import Release

Lines = Mapping[str, tuple[str, ...]]

CLUSTER_ROLES: Lines = {
    "cluster-admin": (
        "* * *",
        "* *",
    ),
    "system:auth-delegator": (
        "create authentication tokenreviews",
        "create authorization subjectaccessreviews",
    ),
    "system:basic-user": (
        "create authorization selfsubjectaccessreviews,selfsubjectrulesreviews",
        "create authentication selfsubjectreviews",
    ),
    "system:{certificates}:certificatesigningrequests:nodeclient": (
        "create certificates certificatesigningrequests/nodeclient",
    ),
    "system:{certificates}:certificatesigningrequests:selfnodeclient": (
        "create certificates certificatesigningrequests/selfnodeclient",
    ),
    "system:{certificates}:kube-apiserver-client-approver": (
        "approve certificates signers {label}/kube-apiserver-client",
    ),
    "system:{certificates}:kube-apiserver-client-kubelet-approver": (
        "approve certificates signers {label}/kube-apiserver-client-kubelet",
    ),
    "system:{certificates}:kubelet-serving-approver": ("approve certificates signers {label}/kubelet-serving",),
    "system:{certificates}:legacy-unknown-approver": ("approve certificates signers {label}/legacy-unknown",),
    "system:discovery": (
        "get /api,/api/*,/apis,/apis/*,/healthz,/livez,/openapi,/openapi/*,/readyz,/version,/version/",
    ),
    "system:heapster": (
        "get,list,watch core events,namespaces,nodes,pods",
        "get,list,watch extensions deployments",
    ),
    "system:kube-aggregator": ("get,list,watch core endpoints,services",),
    "system:kube-controller-manager": (
        "create,patch,update core,events events",
        "create coordination leases",
        "get,update coordination leases kube-controller-manager",
        "create core secrets,serviceaccounts",
        "delete core secrets",
        "get core configmaps,namespaces,secrets,serviceaccounts",
        "update core secrets,serviceaccounts",
        "create authentication tokenreviews",
        "create authorization subjectaccessreviews",
        "list,watch * *",
        "create core serviceaccounts/token",
    ),
    "system:kube-dns": ("list,watch core endpoints,services",),
    "system:kube-scheduler": (
        "create,patch,update core,events events",
        "create coordination leases",
        "get,update coordination leases kube-scheduler",
        "get,list,watch core nodes",
        "delete,get,list,watch core pods",
        "create core bindings,pods/binding",
        "patch,update core pods/status",
        "get,list,watch core replicationcontrollers,services",
        "get,list,watch apps,extensions replicasets",
        "get,list,watch apps statefulsets",
        "get,list,watch policy poddisruptionbudgets",
        "get,list,watch core persistentvolumeclaims,persistentvolumes",
        "create authentication tokenreviews",
        "create authorization subjectaccessreviews",
        "get,list,watch storage csinodes",
        "get,list,watch core namespaces",
        "get,list,watch storage csidrivers",
        "get,list,watch storage csistoragecapacities",
    ),
    "system:kubelet-api-admin": (
        "get,list,watch core nodes",
        "proxy core nodes",
        "* core nodes/log,nodes/metrics,nodes/proxy,nodes/stats",
    ),
    "system:monitoring": ("get /healthz,/healthz/*,/livez,/livez/*,/metrics,/metrics/slis,/readyz,/readyz/*",),
    "system:node": (
        "create authentication tokenreviews",
        "create authorization localsubjectaccessreviews,subjectaccessreviews",
        "get,list,watch core services",
        "create,get,list,watch core nodes",
        "patch,update core nodes/status",
        "patch,update core nodes",
        "create,patch,update core events",
        "get,list,watch core pods",
        "create,delete core pods",
        "patch,update core pods/status",
        "create core pods/eviction",
        "get,list,watch core configmaps,secrets",
        "get core persistentvolumeclaims,persistentvolumes",
        "get core endpoints",
        "create,get,list,watch certificates certificatesigningrequests",
        "create,delete,get,patch,update coordination leases",
        "get storage volumeattachments",
        "create core serviceaccounts/token",
        "get,patch,update core persistentvolumeclaims/status",
        "get,list,watch storage csidrivers",
        "create,delete,get,patch,update storage csinodes",
        "get,list,watch node runtimeclasses",
    ),
    "system:node-bootstrapper": ("create,get,list,watch certificates certificatesigningrequests",),
    "system:node-problem-detector": (
        "get core nodes",
        "patch core nodes/status",
        "create,patch,update core,events events",
    ),
    "system:node-proxier": (
        "list,watch core endpoints,services",
        "get,list,watch core nodes",
        "create,patch,update core,events events",
        "list,watch discovery endpointslices",
    ),
    "system:persistent-volume-provisioner": (
        "create,delete,get,list,watch core persistentvolumes",
        "get,list,update,watch core persistentvolumeclaims",
        "get,list,watch storage storageclasses",
        "watch core events",
        "create,patch,update core,events events",
    ),
    "system:public-info-viewer": ("get /healthz,/livez,/readyz,/version,/version/",),
    "system:service-account-issuer-discovery": (
        "get /.well-known/openid-configuration,/.well-known/openid-configuration/,/openid/v1/jwks,/openid/v1/jwks/",
    ),
    "system:volume-scheduler": (
        "get,list,patch,update,watch core persistentvolumes",
        "get,list,watch storage storageclasses",
        "get,list,patch,update,watch core persistentvolumeclaims",
    ),
}

AGGREGATED: Lines = {
    "admin": (
        "create authorization localsubjectaccessreviews",
        "create,delete,deletecollection,get,list,patch,update,watch rbac.authorization rolebindings,roles",
    ),
    "edit": (
        "get,list,watch core pods/attach,pods/exec,pods/portforward,pods/proxy,secrets,services/proxy",
        "impersonate core serviceaccounts",
        "create,delete,deletecollection,patch,update core pods,pods/attach,pods/exec,pods/portforward,pods/proxy",
        "create core pods/eviction",
        "create,delete,deletecollection,patch,update core configmaps,events,persistentvolumeclaims"
        ",replicationcontrollers,replicationcontrollers/scale,secrets,serviceaccounts,services,services/proxy",
        "create core serviceaccounts/token",
        "create,delete,deletecollection,patch,update apps daemonsets,deployments,deployments/rollback"
        ",deployments/scale,replicasets,replicasets/scale,statefulsets,statefulsets/scale",
        "create,delete,deletecollection,patch,update autoscaling horizontalpodautoscalers",
        "create,delete,deletecollection,patch,update batch cronjobs,jobs",
        "create,delete,deletecollection,patch,update extensions daemonsets,deployments,deployments/rollback"
        ",deployments/scale,ingresses,networkpolicies,replicasets,replicasets/scale"
        ",replicationcontrollers/scale",
        "create,delete,deletecollection,patch,update policy poddisruptionbudgets",
        "create,delete,deletecollection,patch,update networking ingresses,networkpolicies",
        "create,delete,deletecollection,get,list,patch,update,watch coordination leases",
    ),
    "view": (
        "get,list,watch core configmaps,endpoints,persistentvolumeclaims,persistentvolumeclaims/status,pods"
        ",replicationcontrollers,replicationcontrollers/scale,serviceaccounts,services,services/status",
        "get,list,watch core bindings,events,limitranges,namespaces/status,pods/log,pods/status"
        ",replicationcontrollers/status,resourcequotas,resourcequotas/status",
        "get,list,watch core namespaces",
        "get,list,watch discovery endpointslices",
        "get,list,watch apps controllerrevisions,daemonsets,daemonsets/status,deployments,deployments/scale"
        ",deployments/status,replicasets,replicasets/scale,replicasets/status,statefulsets,statefulsets/scale"
        ",statefulsets/status",
        "get,list,watch autoscaling horizontalpodautoscalers,horizontalpodautoscalers/status",
        "get,list,watch batch cronjobs,cronjobs/status,jobs,jobs/status",
        "get,list,watch extensions daemonsets,daemonsets/status,deployments,deployments/scale"
        ",deployments/status,ingresses,ingresses/status,networkpolicies,replicasets,replicasets/scale"
        ",replicasets/status,replicationcontrollers/scale",
        "get,list,watch policy poddisruptionbudgets,poddisruptionbudgets/status",
        "get,list,watch networking ingresses,ingresses/status,networkpolicies",
    ),
}
"""The rules of the aggregated roles; roles with the aggregation labels add further rules."""

NAMESPACED: Lines = {
    "kube-public/system:controller:bootstrap-signer": (
        "get,list,watch core configmaps",
        "update core configmaps cluster-info",
        "create,patch,update core,events events",
    ),
    "{system}/extension-apiserver-authentication-reader": (
        "get,list,watch core configmaps extension-apiserver-authentication",
    ),
    "{system}/system::leader-locking-kube-controller-manager": (
        "watch core configmaps",
        "get,update core configmaps kube-controller-manager",
    ),
    "{system}/system::leader-locking-kube-scheduler": (
        "watch core configmaps",
        "get,update core configmaps kube-scheduler",
    ),
    "{system}/system:controller:bootstrap-signer": ("get,list,watch core secrets",),
    "{system}/system:controller:cloud-provider": ("create,get,list,watch core configmaps",),
    "{system}/system:controller:token-cleaner": (
        "delete,get,list,watch core secrets",
        "create,patch,update core,events events",
    ),
}
"""Roles by namespace and name."""

GATHERED_BY = {"admin": "", "edit": "admin", "view": "edit"}
"""For each aggregated role the role that it is aggregated to."""

BOUND: Mapping[str, tuple[str, ...]] = {
    "cluster-admin": ("Group system:masters",),
    "system:basic-user": ("Group system:authenticated",),
    "system:discovery": ("Group system:authenticated",),
    "system:kube-controller-manager": ("User system:kube-controller-manager",),
    "system:kube-dns": ("ServiceAccount kube-dns",),
    "system:kube-scheduler": ("User system:kube-scheduler",),
    "system:monitoring": ("Group system:monitoring",),
    "system:node": (),
    "system:node-proxier": ("User system:kube-proxy",),
    "system:public-info-viewer": ("Group system:authenticated", "Group system:unauthenticated"),
    "system:service-account-issuer-discovery": ("Group system:serviceaccounts",),
    "system:volume-scheduler": ("User system:kube-scheduler",),
}
"""Subjects of the cluster role binding of each cluster role; service accounts are in the system namespace."""

NAMESPACED_BOUND: Mapping[str, tuple[str, ...]] = {
    "kube-public/system:controller:bootstrap-signer": ("ServiceAccount bootstrap-signer",),
    "{system}/extension-apiserver-authentication-reader": (
        "User system:kube-controller-manager",
        "User system:kube-scheduler",
    ),
    "{system}/system::leader-locking-kube-controller-manager": (
        "User system:kube-controller-manager",
        "ServiceAccount kube-controller-manager",
    ),
    "{system}/system::leader-locking-kube-scheduler": (
        "User system:kube-scheduler",
        "ServiceAccount kube-scheduler",
    ),
    "{system}/system:controller:bootstrap-signer": ("ServiceAccount bootstrap-signer",),
    "{system}/system:controller:cloud-provider": ("ServiceAccount cloud-provider",),
    "{system}/system:controller:token-cleaner": ("ServiceAccount token-cleaner",),
}
"""Subjects of the role binding of each namespaced role."""

BOUND_BY_RELEASE: Mapping[str, Mapping[Release, tuple[str, ...]]] = {
    "{system}/system::leader-locking-kube-controller-manager": {
        Release(1, 36): ("ServiceAccount leader-election-controller",),
    },
}
"""Additional subjects of role bindings from a release on."""

BINDING_NAMES = {"extension-apiserver-authentication-reader": "system::extension-apiserver-authentication-reader"}
"""Names of bindings that differ from the name of the role."""

_LEADER_LOCKS = (
    "create,get,list,update,watch coordination leases",
    "create,get,list,update,watch coordination leasecandidates",
)

BY_RELEASE: Mapping[str, Mapping[Release, tuple[str, ...]]] = {
    "system:monitoring": {
        Release(1, 34): ("get core nodes/metrics",),
        Release(1, 36): ("get /flagz,/statusz",),
    },
    "system:node": {Release(1, 34): ("create,patch,update events events",)},
    "edit": {Release(1, 36): ("create,delete,deletecollection,patch,update events events",)},
    "view": {Release(1, 36): ("get,list,watch events events",)},
    "system:kube-scheduler": {
        Release(1, 36): (
            "list,watch coordination leases kube-scheduler",
            "create,delete,deletecollection,get,list,patch,update,watch coordination leasecandidates",
            "get,list,watch storage volumeattachments",
        ),
    },
    "{system}/system::leader-locking-kube-controller-manager": {Release(1, 36): _LEADER_LOCKS},
    "{system}/system::leader-locking-kube-scheduler": {Release(1, 36): _LEADER_LOCKS},
    "system:controller:cronjob-controller": {Release(1, 36): ("watch core pods",)},
    "system:controller:endpoint-controller": {Release(1, 36): ("watch core endpoints",)},
    "system:controller:endpointslice-controller": {Release(1, 36): ("watch discovery endpointslices",)},
    "system:controller:endpointslicemirroring-controller": {Release(1, 36): ("watch discovery endpointslices",)},
    "system:controller:horizontal-pod-autoscaler": {
        Release(1, 36): (
            "watch core pods",
            "watch custom.metrics *",
            "watch external.metrics *",
            "watch metrics pods",
        ),
    },
    "system:controller:namespace-controller": {Release(1, 36): ("watch * *",)},
    "system:controller:node-controller": {Release(1, 36): ("watch core nodes", "watch core pods")},
    "system:controller:persistent-volume-binder": {Release(1, 36): ("list,watch core nodes",)},
    "system:controller:pod-garbage-collector": {Release(1, 36): ("watch core nodes",)},
    "system:controller:pvc-protection-controller": {Release(1, 36): ("update core persistentvolumeclaims/status",)},
    "system:controller:statefulset-controller": {
        Release(1, 36): ("list,watch core persistentvolumeclaims", "update core pods/finalizers"),
    },
    "system:controller:validatingadmissionpolicy-status-controller": {
        Release(1, 30): (
            "get,list,watch admissionregistration validatingadmissionpolicies",
            "get,patch,update admissionregistration validatingadmissionpolicies/status",
            "create,patch,update core,events events",
        ),
    },
}
"""Additional rules of roles from a release on."""

UNTIL: Mapping[str, Mapping[Release, tuple[str, ...]]] = {
    "{system}/system::leader-locking-kube-controller-manager": {
        Release(1, 36): ("watch core configmaps", "get,update core configmaps kube-controller-manager"),
    },
    "{system}/system::leader-locking-kube-scheduler": {
        Release(1, 36): ("watch core configmaps", "get,update core configmaps kube-scheduler"),
    },
    "system:controller:expand-controller": {
        Release(1, 36): ("get,list,watch storage storageclasses", "get core endpoints,services", "get core secrets"),
    },
    "system:controller:node-controller": {Release(1, 36): ("create,get,list,update networking clustercidrs",)},
    "system:controller:persistent-volume-binder": {
        Release(1, 36): (
            "create,delete,get,update core endpoints",
            "create,delete,get core services",
            "get core secrets",
            "get,list core nodes",
        ),
    },
}
"""Rules of roles that a release no longer has."""

GATED: dict[str, dict[str, tuple[str, ...]]] = {
    "system:kubelet-api-admin": {
        "NodeAgentFineGrainedAuthz": ("* core nodes/configz,nodes/healthz,nodes/pods",),
    },
    "edit": {
        "DynamicResourceAllocation": (
            "create,delete,deletecollection,patch,update resource resourceclaims,resourceclaimtemplates",
        ),
    },
    "system:controller:device-taint-eviction-controller": {
        "DRADeviceTaints": (
            "delete,get,list,watch core pods",
            "patch,update core pods/status",
            "get,list,watch resource deviceclasses",
            "get,list,watch resource resourceclaims",
            "get,list,watch resource resourceslices",
            "create,patch,update core,events events",
        ),
    },
    "system:controller:resource-claim-controller": {
        "DynamicResourceAllocation": (
            "get,list,watch core pods",
            "update core pods/finalizers",
            "create,delete,get,list,watch resource resourceclaims",
            "patch,update resource resourceclaims,resourceclaims/status",
            "patch,update core pods/status",
            "create,patch,update core,events events",
        ),
        "DRAResourceClaimGranularStatusAuthorization": ("patch,update resource resourceclaims/binding",),
    },
    "system:controller:selinux-warning-controller": {
        "SELinuxChangePolicy": (
            "get,list,watch core pods",
            "get,list,watch core persistentvolumes",
            "get,list,watch core persistentvolumeclaims",
            "get,list,watch storage csidrivers",
            "create,patch,update core,events events",
        ),
    },
    "system:controller:volumeattributesclass-protection-controller": {
        "VolumeAttributesClass": (
            "get,list,watch core persistentvolumeclaims",
            "get,list,watch core persistentvolumes",
            "get,list,update,watch storage volumeattributesclasses",
            "create,patch,update core,events events",
        ),
    },
    "system:controller:service-cidrs-controller": {
        "MultiCIDRServiceAllocator": (
            "get,list,patch,update,watch networking servicecidrs",
            "patch,update networking servicecidrs/finalizers",
            "patch,update networking servicecidrs/status",
            "get,list,watch networking ipaddresses",
            "create,patch,update core,events events",
        ),
    },
    "system:node-proxier": {"MultiCIDRServiceAllocator": ("list,watch networking servicecidrs",)},
    "system:kube-scheduler": {
        "DynamicResourceAllocation": (
            "get,list,watch resource deviceclasses",
            "get,list,patch,update,watch resource resourceclaims",
            "get,list,patch,update,watch resource resourceclaims/status",
            "update core pods/finalizers",
            "get,list,watch resource resourceslices",
        ),
        "DRAExtendedResource": ("create,delete resource resourceclaims",),
        "DRAResourceClaimGranularStatusAuthorization": ("patch,update resource resourceclaims/binding",),
    },
    "view": {
        "DynamicResourceAllocation": (
            "get,list,watch resource resourceclaims,resourceclaims/status,resourceclaimtemplates",
        ),
    },
    "system:node": {
        "DynamicResourceAllocation": ("get resource resourceclaims", "deletecollection resource resourceslices"),
        "ClusterTrustBundle": ("get,list,watch certificates clustertrustbundles",),
        "NodeAgentServiceAccountTokenForCredentialProviders": ("get core serviceaccounts",),
        "PodCertificateRequest": ("create,get,list,watch certificates podcertificaterequests",),
    },
}
"""Additional rules of cluster roles by feature gate."""
