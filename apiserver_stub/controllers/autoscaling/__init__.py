"""Horizontal autoscaling: metrics, the number of replicas that they require, and the limits of a change."""
