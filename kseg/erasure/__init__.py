"""Erasure: records that are taken out of logs for good, and the certificate of it."""
