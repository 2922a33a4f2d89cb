"""Scheduling decisions: filters over nodes and pods, and the queue of pending pods. No I/O.

The filters, their order and their messages are those of kube-scheduler's default profile.
"""
