"""Certificates of pods: keys, requests to signers and renewal."""
