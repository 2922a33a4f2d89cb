"""Collections of the store that a simulation uses."""

from __future__ import annotations

NODES = "core/nodes"
NAMESPACES, QUOTAS, SERVICES = "core/namespaces", "core/resourcequotas", "core/services"
PODS, CONFIG_MAPS, EVENTS = "core/pods", "core/configmaps", "core/events"
DEPLOYMENTS, REPLICA_SETS, JOBS = "apps/deployments", "apps/replicasets", "batch/jobs"
CRON_JOBS, VOLUMES, CLAIMS = "batch/cronjobs", "core/persistentvolumes", "core/persistentvolumeclaims"
STATEFUL_SETS, DAEMON_SETS, BUDGETS = "apps/statefulsets", "apps/daemonsets", "policy/poddisruptionbudgets"
DEFINITIONS, WIDGETS = "apiextensions.k8s.io/customresourcedefinitions", "simulated.test/widgets"
WIDGETS_DEFINITION = "widgets.simulated.test"
GADGETS = "simulated.test/gadgets"
AUTOSCALERS = "autoscaling/horizontalpodautoscalers"
SLICES = "discovery.k8s.io/endpointslices"
