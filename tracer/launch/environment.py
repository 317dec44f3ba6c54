"""The environment that a task process starts in.

These must be set before torch and gRPC are imported, so they are the launcher's work. Threads: with
the default, fresh RPC threads each spin an OpenMP team (measured: twice the step time). Malloc:
fresh mmaps of large messages cost more than their copy.
"""

import logging
import os
from collections.abc import Mapping

from tracer.launch.plan import PLAN_VARIABLE, SCRATCH_VARIABLE, SECRET_VARIABLE, Plan
from tracer.record.clock import clock_environment

GIB = str(1 << 30)
PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")  #: what gRPC would look at

_log = logging.getLogger(__name__)


def say_if_proxy_is_ignored(plan: Plan) -> None:
    """A proxy that is set for the web would take cluster traffic too, even on one host."""
    if not plan.allow_proxy and (found := next(filter(os.environ.get, PROXIES), "")):
        _log.warning(
            "%s is set; cluster traffic does not go there (unless --allow-proxy is given)", found
        )


def threads_per_task(local_tasks: int) -> int:
    return max(1, (os.cpu_count() or 1) // max(1, local_tasks))


def thread_settings(local_tasks: int) -> Mapping[str, str]:
    """Environment variables for threads and memory of one of `local_tasks` tasks on this host."""
    threads = str(threads_per_task(local_tasks))
    return {
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "MALLOC_MMAP_THRESHOLD_": GIB,
        "MALLOC_TRIM_THRESHOLD_": GIB,
    }


def task_environment(plan: Plan, scratch: str, secret: str, local_tasks: int) -> Mapping[str, str]:
    """What the launcher tells its children beyond job and index; the user's settings win."""
    told = {
        PLAN_VARIABLE: plan.to_json(),
        SECRET_VARIABLE: secret,
        SCRATCH_VARIABLE: scratch,
    }
    return {**thread_settings(local_tasks), **os.environ, **clock_environment(), **told}
