"""Manifests: digests of segments, written once and checked later."""
