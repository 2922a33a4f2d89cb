"""Admission webhooks: selection, AdmissionReview messages and the HTTPS client."""
