"""What a worker keeps for one master session: graphs, and stubs of its peers."""

import threading

from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.step import SpanContext
from tracer.runtime.graph_manager import GraphManager
from tracer.runtime.interfaces import StepError, WorkerInterface
from tracer.runtime.worker_cache import WorkerCache
from tracer.runtime.worker_env import WorkerEnv


class WorkerSession:
    """`context` is what the session belongs to in the trace."""

    def __init__(
        self,
        name: str,
        cluster: ClusterSpec,
        env: WorkerEnv,
        cache: WorkerCache,
        context: SpanContext,
    ) -> None:
        self.name = name
        self.context = context
        self.graphs = GraphManager(env, name)
        self._cluster = cluster
        self._cache = cache
        self._lock = threading.Lock()
        self._peers: dict[TaskName, WorkerInterface] = {}

    def peer(self, task: TaskName) -> WorkerInterface:
        """The stub of another task, taken from the cache once a session. Raises StepError."""
        found = self._peers.get(task)
        if found is not None:
            return found
        with self._lock:
            if task not in self._peers:
                self._peers[task] = self._cache.acquire(task, self._address(task), self.context)
            return self._peers[task]

    def _address(self, task: TaskName) -> str:
        try:
            return self._cluster.address(task)
        except KeyError as error:
            raise StepError("INVALID_ARGUMENT", str(error.args[0])) from None

    def close(self) -> None:
        with self._lock:
            peers, self._peers = self._peers, {}
        for stub in peers.values():
            self._cache.release(stub)
