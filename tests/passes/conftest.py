"""Fixtures of the passes' tests."""

from tests.clusters import cluster_kind, start_cluster

__all__ = ["cluster_kind", "start_cluster"]
