"""Names of tasks and devices, and the description of a cluster.

A task is written `worker:0`, a device `/job:worker/replica:0/task:0/device:CPU:0`. What a user asks
for may leave parts out (`/job:ps`, `/device:CPU:1`); `DeviceSpec` holds such a request,
`DeviceName` a whole name. The spellings follow TensorFlow's `device_name_utils.cc`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Self

from tracer.model.json_text import parse_json
from tracer.model.refusal import Refusal

LOCALHOST = "localhost"  # the job of a task that has no cluster (TF's DirectSession)
DEVICES_LIMIT = 1024  #: tasks of a job, or devices of a task, that one may ask for

_JOB = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
_PART = re.compile(r"(?:(?P<key>job|replica|task):(?P<value>[^/]+))\Z")
_DEVICE = re.compile(r"(?:device:)?(?P<type>[A-Za-z]\w*):(?P<index>\d+|\*)\Z")


class ClusterError(Refusal):
    """A cluster description that breaks a rule; the text names the path and the next step."""


@dataclass(frozen=True, slots=True, order=True)
class TaskName:
    job: str
    index: int

    def __str__(self) -> str:
        return f"{self.job}:{self.index}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads `worker:0`; raises ValueError with the rule otherwise."""
        job, colon, index = text.partition(":")
        if not colon or not _JOB.match(job) or not index.isascii() or not index.isdigit():
            raise ValueError(f"{text!r} is not a task name; write JOB:INDEX, for example worker:0")
        return cls(job, int(index))

    @property
    def prefix(self) -> str:
        """The front part of every device name of this task."""
        return f"/job:{self.job}/replica:0/task:{self.index}"

    def device(self, device_type: str = "CPU", index: int = 0) -> "DeviceName":
        return DeviceName(self.job, self.index, device_type, index)


@dataclass(frozen=True, slots=True, order=True)
class DeviceName:
    job: str
    task: int
    type: str
    index: int

    def __str__(self) -> str:
        return f"/job:{self.job}/replica:0/task:{self.task}/device:{self.type}:{self.index}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads a whole device name; raises ValueError if a part is missing."""
        spec = DeviceSpec.parse(text)
        if spec.job is None or spec.task is None or spec.type is None or spec.index is None:
            raise ValueError(
                f"{text!r} is not a whole device name; "
                "write it as /job:worker/replica:0/task:0/device:CPU:0"
            )
        return cls(spec.job, spec.task, spec.type, spec.index)

    @property
    def task_name(self) -> TaskName:
        return TaskName(self.job, self.task)

    @property
    def short(self) -> str:
        """What stands on a lane: `CPU:0`."""
        return f"{self.type}:{self.index}"


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """A request for a device; None means "any"."""

    job: str | None = None
    task: int | None = None
    type: str | None = None
    index: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads a partial device name such as `/job:ps/task:1` or `/device:CPU:1`; `""` is any."""
        found: dict[str, str] = {}
        for part in text.split("/")[1:] if text.startswith("/") else text.split("/"):
            if not part:
                continue
            if named := _PART.match(part):
                found[named["key"]] = named["value"]
            elif device := _DEVICE.match(part):
                found["type"], found["index"] = device["type"].upper(), device["index"]
            else:
                raise ValueError(
                    f"{part!r} in device {text!r} is not a part of a device name; allowed are "
                    "/job:NAME, /replica:0, /task:N and /device:TYPE:N"
                )
        return cls._checked(text, found)

    @classmethod
    def _checked(cls, text: str, found: Mapping[str, str]) -> Self:
        for key in ("task", "replica"):
            if key in found and not (found[key].isascii() and found[key].isdigit()):
                raise ValueError(f"{key}:{found[key]} in device {text!r} must be a number")
        if found.get("replica", "0") != "0":
            raise ValueError(
                f"replica:{found['replica']} in device {text!r}: only replica 0 exists"
            )
        if "job" in found and not _JOB.match(found["job"]):
            raise ValueError(f"job {found['job']!r} in device {text!r} must match {_JOB.pattern}")
        index = found.get("index", "*")
        return cls(
            found.get("job"),
            int(found["task"]) if "task" in found else None,
            found.get("type"),
            None if index == "*" else int(index),
        )

    def __str__(self) -> str:
        parts = [f"/job:{self.job}"] if self.job is not None else []
        parts += [f"/task:{self.task}"] if self.task is not None else []
        if self.type is not None:
            parts.append(f"/device:{self.type}:{'*' if self.index is None else self.index}")
        return "".join(parts)

    def matches(self, device: DeviceName) -> bool:
        return (
            self.job in (None, device.job)
            and self.task in (None, device.task)
            and self.type in (None, device.type)
            and self.index in (None, device.index)
        )

    def merged_over(self, outer: "DeviceSpec") -> "DeviceSpec":
        """This request, completed by an enclosing one (inner parts win, as in `tf.device`)."""
        return DeviceSpec(
            outer.job if self.job is None else self.job,
            outer.task if self.task is None else self.task,
            outer.type if self.type is None else self.type,
            outer.index if self.index is None else self.index,
        )


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """Job → task index → address. Indexes may have gaps, as in TF."""

    jobs: Mapping[str, Mapping[int, str]]

    @classmethod
    def of_counts(cls, **tasks: int) -> Self:
        """A cluster whose addresses are not known yet: `ClusterSpec.of_counts(ps=1, worker=2)`."""
        return cls({job: dict.fromkeys(range(n), "") for job, n in tasks.items() if n})

    def tasks(self) -> Iterator[TaskName]:
        for job in sorted(self.jobs):
            for index in sorted(self.jobs[job]):
                yield TaskName(job, index)

    def address(self, task: TaskName) -> str:
        """Host and port of a task; KeyError with the known tasks if there is none."""
        try:
            return self.jobs[task.job][task.index]
        except KeyError:
            known = ", ".join(map(str, self.tasks()))
            raise KeyError(f"task {task} is not in the cluster; it has {known}") from None

    def with_address(self, task: TaskName, address: str) -> "ClusterSpec":
        jobs = {job: dict(tasks) for job, tasks in self.jobs.items()}
        jobs.setdefault(task.job, {})[task.index] = address
        return ClusterSpec(jobs)

    def to_json(self) -> dict[str, dict[str, str]]:
        return {
            job: {str(index): self.jobs[job][index] for index in sorted(self.jobs[job])}
            for job in sorted(self.jobs)
        }


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """A parsed TF_CONFIG: the cluster and, if it says so, who we are."""

    cluster: ClusterSpec
    task: TaskName | None = None


def parse_cluster(text: str) -> ClusterConfig:
    """Reads TF_CONFIG (`{"cluster": {...}, "task": {...}}`) or the cluster object alone.

    Raises ClusterError with the path of the fault and a hint, before any socket is opened.
    """
    from tracer.model.cluster_config import read_config  # noqa: PLC0415 (it imports this module)

    return read_config(parse_json(text, "the cluster description", ClusterError))
