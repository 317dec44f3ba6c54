"""The rules of a cluster description: TF_CONFIG, or the cluster object alone.

A fault is named by its path in the JSON with what to write instead, before any socket is opened.
Names of hosts are not resolved here: a cluster may be described on a machine that cannot see it.
"""

import difflib
import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tracer.model.cluster import ClusterConfig, ClusterError, ClusterSpec, TaskName

ROLES = ("chief", "worker", "ps", "evaluator")  #: the jobs TF gives a meaning; others are allowed

_JOB = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?\.?\Z")
_EXAMPLE = '{"worker": ["host1:2222", "host2:2222"], "ps": ["host0:2222"]}'


def read_config(raw: Any) -> ClusterConfig:
    """Raises ClusterError for the first fault. Only a TF_CONFIG says who we are."""
    if not isinstance(raw, dict):
        raise ClusterError(
            f"a cluster description is an object such as {_EXAMPLE}, not {_kind(raw)}"
        )
    if "cluster" in raw:
        cluster = _cluster(raw["cluster"], "cluster")
        return ClusterConfig(cluster, _task(raw.get("task"), cluster))
    if near := difflib.get_close_matches("cluster", raw, n=1, cutoff=0.7):
        raise ClusterError(f"{near[0]}: unknown key; did you mean 'cluster'?")
    if "task" in raw:
        raise ClusterError(f'cluster: is missing beside "task"; add "cluster": {_EXAMPLE}')
    return ClusterConfig(_cluster(raw, ""))


def loopback_warnings(cluster: ClusterSpec) -> list[str]:
    """One sentence per task that other hosts of the cluster would look for on themselves."""
    hosts = {task: split_address(cluster.address(task))[0] for task in cluster.tasks()}
    local = [task for task, host in hosts.items() if _is_loopback(host)]
    if len(local) == len(hosts):
        return []
    return [
        f"{task} is at {cluster.address(task)}, which other hosts take for themselves; "
        "name the host it runs on"
        for task in local
    ]


def split_address(address: str) -> tuple[str, int]:
    """Host (IPv6 without its brackets) and port; raises ValueError with the rule."""
    host, colon, port = address.rpartition(":")
    if "://" in address:
        raise ValueError(f"{address!r} has a scheme; write {address.split('://')[1]!r}")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(
            f"{address!r} must be HOST:PORT with a port from 0 to 65535, such as 'host1:2222'"
        )
    if host.startswith("[") and host.endswith("]"):
        return _ipv6(host[1:-1], address), int(port)
    if ":" in host:
        raise ValueError(f"{address!r}: an IPv6 address needs brackets; write '[{host}]:{port}'")
    if not _HOST.match(host):
        raise ValueError(
            f"{address!r}: {host!r} is no host name; allowed are letters, digits, '.', '-', '_'"
        )
    return host, int(port)


def _ipv6(host: str, address: str) -> str:
    try:
        ipaddress.IPv6Address(host)
    except ValueError as error:
        raise ValueError(f"{address!r}: {error}; an IPv6 address is written '[::1]:2222'") from None
    return host


def _cluster(raw: Any, path: str) -> ClusterSpec:
    if not isinstance(raw, dict):
        raise ClusterError(f"{path}: must be an object such as {_EXAMPLE}, not {_kind(raw)}")
    if not raw:
        raise ClusterError(f"{path or 'cluster'}: is empty; write for example {_EXAMPLE}")
    dot = f"{path}." if path else ""
    cluster = ClusterSpec({job: _job(job, tasks, f"{dot}{job}") for job, tasks in raw.items()})
    _refuse_duplicates(cluster, dot)
    return cluster


def _job(job: str, raw: Any, path: str) -> dict[int, str]:
    _check_job_name(job, path)
    if not isinstance(raw, list | dict):
        raise ClusterError(
            f'{path}: must be a list of addresses or an object such as {{"1": "host1:2222"}}, '
            f"not {_kind(raw)}"
        )
    if not raw:
        raise ClusterError(f"{path}: has no task; list an address or leave the job out")
    tasks: dict[int, str] = {}
    for index, address, where in _entries(raw, path):
        if index in tasks:
            raise ClusterError(f"{where}: task {index} is given twice")
        tasks[index] = _address(address, where)
    return tasks


def _check_job_name(job: str, path: str) -> None:
    if not _JOB.match(job):
        raise ClusterError(f"{path}: {job!r} is no job name; it must match {_JOB.pattern[:-2]}")
    role = job.lower().removesuffix("_hosts")
    near = difflib.get_close_matches(role, ROLES, n=1, cutoff=0.8)
    if near and near[0] != job:
        raise ClusterError(f"{path}: no job is called {job!r}; write {near[0]!r}")


def _entries(raw: list[Any] | dict[str, Any], path: str) -> Iterator[tuple[int, Any, str]]:
    if isinstance(raw, list):
        for index, address in enumerate(raw):
            yield index, address, f"{path}[{index}]"
        return
    for key, address in raw.items():
        if not key.isascii() or not key.isdigit():
            raise ClusterError(f'{path}["{key}"]: a task is a number in quotes, such as "1"')
        yield int(key), address, f'{path}["{key}"]'


def _address(raw: Any, path: str) -> str:
    if not isinstance(raw, str):
        raise ClusterError(f'{path}: must be an address such as "host1:2222", not {_kind(raw)}')
    try:
        split_address(raw)
    except ValueError as error:
        raise ClusterError(f"{path}: {error}") from None
    return raw


def _refuse_duplicates(cluster: ClusterSpec, dot: str) -> None:
    """Port 0 means "any free one", so it may stand more than once."""
    owners: dict[tuple[str, int], str] = {}
    for task in cluster.tasks():
        host, port = split_address(cluster.address(task))
        path = f"{dot}{task.job}[{task.index}]"
        owner = owners.setdefault((host.lower(), port), path) if port else path
        if owner != path:
            raise ClusterError(
                f"{path}: {cluster.address(task)} is already the address of {owner}; "
                "every task needs one of its own"
            )


def _task(raw: Any, cluster: ClusterSpec) -> TaskName:
    example = '{"type": "worker", "index": 0}'
    if raw is None:
        raise ClusterError(
            f'task: is missing; add "task": {example}, or give the cluster object alone'
        )
    if not isinstance(raw, dict):
        raise ClusterError(f"task: must be an object such as {example}, not {_kind(raw)}")
    job = raw.get("type")
    if not isinstance(job, str) or job not in cluster.jobs:
        raise ClusterError(
            f"task.type: {job!r} is no job of the cluster; its jobs are "
            f"{', '.join(sorted(cluster.jobs))}"
        )
    return TaskName(job, _index(raw.get("index"), job, cluster.jobs[job]))


def _index(raw: Any, job: str, tasks: Mapping[int, str]) -> int:
    is_number = isinstance(raw, int) and not isinstance(raw, bool)
    if not is_number and not (isinstance(raw, str) and raw.isascii() and raw.isdigit()):
        raise ClusterError(f"task.index: must be a number such as 0, not {_kind(raw)}")
    if int(raw) not in tasks:
        known = ", ".join(map(str, sorted(tasks)))
        raise ClusterError(f"task.index: job {job!r} has no task {raw}; it has {known}")
    return int(raw)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower().rstrip(".") == "localhost"


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    return "nothing" if value is None else names.get(type(value), "a number")
