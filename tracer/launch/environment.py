"""The environment that a task process starts in.

These must be set before torch and gRPC are imported, so they are the launcher's work. Threads: with
the default, fresh RPC threads each spin an OpenMP team (measured: twice the step time), and devices
that compute at once take the cores from each other (measured: half of the rate). Malloc: fresh
mmaps of large messages cost more than their copy. gRPC: its EventEngine hands every message through
threads of its own (measured: an empty call costs twice the time).
"""

import logging
import os
import re
from collections.abc import Iterable, Mapping
from importlib.metadata import version

from tracer.launch.plan import PLAN_VARIABLE, SCRATCH_VARIABLE, SECRET_VARIABLE, Plan
from tracer.record.clock import clock_environment

GIB = str(1 << 30)
PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")  #: what gRPC would look at

#: what switches EventEngine off, in the versions of grpcio where it is the default and that know
#: these names: an unknown one is an error line in every process
EVENT_ENGINE = (
    "event_engine_client",
    "event_engine_listener",
    "event_engine_callback_cq",
    "event_engine_for_all_other_endpoints",
    "event_engine_fork",
)
_EVENT_ENGINE_SINCE, _EVENT_ENGINE_UNTIL = (1, 80), (1, 85)  #: the last of them that was tried

_log = logging.getLogger(__name__)


def say_if_proxy_is_ignored(plan: Plan) -> None:
    """A proxy that is set for the web would take cluster traffic too, even on one host."""
    if not plan.allow_proxy and (found := next(filter(os.environ.get, PROXIES), "")):
        _log.warning(
            "%s is set; cluster traffic does not go there (unless --allow-proxy is given)", found
        )


def num_on_cores(devices: Iterable[str]) -> int:
    """How many of a task's devices compute on the host's cores; a task of GPUs counts as one."""
    return max(1, sum(device.startswith("cpu") for device in devices))


def threads_per_device(on_cores: int) -> int:
    """Of a kernel, where so many devices of all tasks on this host share its cores."""
    return max(1, (os.cpu_count() or 1) // max(1, on_cores))


def grpc_settings(grpcio: str) -> Mapping[str, str]:
    """Environment variables for a version of grpcio, such as `1.85.3`."""
    numbers = tuple(int(number) for number in re.findall(r"\d+", grpcio)[:2])
    if not _EVENT_ENGINE_SINCE <= numbers <= _EVENT_ENGINE_UNTIL:
        return {}
    return {"GRPC_EXPERIMENTS": ",".join(f"-{name}" for name in EVENT_ENGINE)}


def process_settings(on_cores: int) -> Mapping[str, str]:
    """Environment variables of a task: threads, memory, gRPC.

    `on_cores`: how many devices of all tasks compute on this host's cores.
    """
    threads = str(threads_per_device(on_cores))
    return {
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "MALLOC_MMAP_THRESHOLD_": GIB,
        "MALLOC_TRIM_THRESHOLD_": GIB,
        **grpc_settings(version("grpcio")),
    }


def task_environment(plan: Plan, scratch: str, secret: str, on_cores: int) -> Mapping[str, str]:
    """What the launcher tells its children beyond job and index; the user's settings win."""
    told = {
        PLAN_VARIABLE: plan.to_json(),
        SECRET_VARIABLE: secret,
        SCRATCH_VARIABLE: scratch,
    }
    return {**process_settings(on_cores), **os.environ, **clock_environment(), **told}
