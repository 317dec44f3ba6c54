"""Fixtures of the runtime's tests."""

from tests.clusters import cluster_kind, start_cluster

__all__ = ["cluster_kind", "start_cluster"]
