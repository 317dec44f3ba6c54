"""A rank that torchrun started, as a task of a cluster: rank i is worker:i.

    RANK, WORLD_SIZE                 which of how many
    LOCAL_RANK, LOCAL_WORLD_SIZE     the same among those of this host
    MASTER_ADDR, MASTER_PORT         where torch keeps a store for all of them
    TORCHELASTIC_RESTART_COUNT       how often torchrun has started them all again

Whatever else sets the first and the third line (Slurm, a shell) will do too. No task's address is
known beforehand: each serves at a free port, writes its address into the store, and reads there
where the others are. Rank 0 also names the run.
"""

import ipaddress
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Self

from tracer.launch.failure import Failure, RunFailed
from tracer.model.cluster import DEVICES_LIMIT, ClusterError, ClusterSpec, TaskName
from tracer.model.cluster_config import split_address

NEEDED: Final = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True, slots=True)
class Ranks:
    """What the environment says. `master` is the address of the store."""

    rank: int
    world_size: int
    master: str
    local_rank: int
    local_size: int
    attempt: int = 0

    @classmethod
    def of_environment(cls, environment: Mapping[str, str]) -> Self | None:
        """None outside torchrun. Raises ClusterError."""
        if "RANK" not in environment:
            return None
        if missing := [name for name in NEEDED if not environment.get(name)]:
            raise ClusterError(
                f"RANK is set, and {', '.join(missing)} not: start the task with torchrun, which "
                f"sets {', '.join(NEEDED)}, or give it --cluster FILE"
            )
        size = _number(environment, "WORLD_SIZE", 1, DEVICES_LIMIT)
        local_size = _number(environment, "LOCAL_WORLD_SIZE", 1, size, default=size)
        return cls(
            _number(environment, "RANK", 0, size - 1),
            size,
            _master(environment),
            _number(environment, "LOCAL_RANK", 0, local_size - 1, default=0),
            local_size,
            _number(environment, "TORCHELASTIC_RESTART_COUNT", 0, 1 << 31, default=0),
        )

    @property
    def task(self) -> TaskName:
        return TaskName("worker", self.rank)

    @property
    def cluster(self) -> ClusterSpec:
        """Every task, at a port that is still open. Raises ClusterError."""
        host = self._host()
        return ClusterSpec({"worker": dict.fromkeys(range(self.world_size), f"{host}:0")})

    def _host(self) -> str:
        """How the others reach this host: the way on which it reaches the store.

        No packet is sent.
        """
        if self.local_size == self.world_size:
            return "127.0.0.1"
        host, port = split_address(self.master)
        try:
            family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, kind) as probe:
                probe.connect(address)
                own = str(probe.getsockname()[0])
        except OSError as error:
            raise ClusterError(
                f"MASTER_ADDR {host}: {error}; name a host that this one can reach"
            ) from None
        if ipaddress.ip_address(own).is_loopback:
            raise ClusterError(
                f"MASTER_ADDR {host} is this host's loopback address, and {self.world_size} ranks "
                f"are on several hosts ({self.local_size} here): name the address by which the "
                "others reach it"
            )
        return f"[{own}]" if ":" in own else own


def _number(
    environment: Mapping[str, str], name: str, least: int, most: int, default: int | None = None
) -> int:
    text = environment.get(name, "")
    if not text and default is not None:
        return default
    if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
        raise ClusterError(f"{name}={text}: must be a whole number from {least} to {most}")
    return int(text)


def _master(environment: Mapping[str, str]) -> str:
    host, port = environment["MASTER_ADDR"], environment["MASTER_PORT"]
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        split_address(address)
    except ValueError as error:
        raise ClusterError(f"MASTER_ADDR and MASTER_PORT: {error}") from None
    return address


class Meeting:
    """All ranks of a run at torch's store, which is kept: who comes late reads there too."""

    def __init__(self, ranks: Ranks, timeout_s: float) -> None:
        """Raises RunFailed if there is no store."""
        import torch.distributed  # noqa: PLC0415 (it takes its time)

        rendezvous: Any = torch.distributed.rendezvous  # type: ignore[attr-defined]
        self._ranks, self._timeout_s = ranks, timeout_s
        url = f"tcp://{ranks.master}?rank={ranks.rank}&world_size={ranks.world_size}"
        what = f"no store at {ranks.master} (MASTER_ADDR, MASTER_PORT)"
        self._store: Any = self._tried(lambda: next(rendezvous(url, timeout=self._limit))[0], what)

    @property
    def _limit(self) -> timedelta:
        return timedelta(seconds=self._timeout_s)

    def run_id(self, mine: str) -> str:
        """Rank 0's is everybody's. Raises RunFailed."""
        key = self._key("run_id")
        if self._ranks.rank == 0:
            self._store.set(key, mine)
        got: bytes = self._tried(lambda: self._store.get(key), "rank 0 has not come")
        return got.decode()

    def introduce(self, address: str) -> ClusterSpec:
        """We serve at `address`: where does everybody? Raises RunFailed."""
        ranks = range(self._ranks.world_size)
        keys = {rank: self._key(f"address/{rank}") for rank in ranks}
        self._store.set(keys[self._ranks.rank], address)
        try:
            self._store.wait(list(keys.values()), self._limit)
        except RuntimeError:
            late = [str(rank) for rank in ranks if not self._store.check([keys[rank]])]
            raise self._failed(f"ranks that have not come: {', '.join(late)}") from None
        return ClusterSpec(
            {"worker": {rank: self._store.get(keys[rank]).decode() for rank in keys}}
        )

    def _key(self, name: str) -> str:
        """Of this time that all were started, not of one before."""
        return f"vizdist/{self._ranks.attempt}/{name}"

    def _tried(self, work: Callable[[], Any], what: str) -> Any:
        try:
            return work()
        except RuntimeError as error:  # torch's DistError, with a stack of C++ behind the text
            first = str(error).partition("\n")[0]
            raise self._failed(f"{what}: {first}") from None

    def _failed(self, what: str) -> RunFailed:
        waited = f"waited {self._timeout_s:g} s (--connect-timeout)"
        return RunFailed(Failure(self._ranks.task, f"{waited}; {what}"), [])
