"""Names of tasks, devices and keys: what is written can be read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracer.model.cluster import DeviceName, DeviceSpec, TaskName
from tracer.model.step import RendezvousKey, RendezvousKeyError, new_step_id, trace_of_step

JOBS = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,12}", fullmatch=True)
INDEXES = st.integers(0, 10**6)
TYPES = st.sampled_from(["CPU", "GPU"])
TASKS = st.builds(TaskName, JOBS, INDEXES)
DEVICES = st.builds(DeviceName, JOBS, INDEXES, TYPES, INDEXES)
SPECS = st.builds(
    DeviceSpec, st.none() | JOBS, st.none() | INDEXES, TYPES, st.none() | INDEXES
) | st.builds(DeviceSpec, st.none() | JOBS, st.none() | INDEXES)
EDGES = st.from_regex(r"edge_[0-9]{1,4}_[A-Za-z0-9_./>-]{1,20}", fullmatch=True)


@given(TASKS)
def test_a_task_name_is_read_back(task: TaskName) -> None:
    assert TaskName.parse(str(task)) == task


@given(DEVICES)
def test_a_device_name_is_read_back(device: DeviceName) -> None:
    assert DeviceName.parse(str(device)) == device
    assert str(device).startswith(device.task_name.prefix + "/")


@given(SPECS)
def test_a_device_request_is_read_back(spec: DeviceSpec) -> None:
    assert DeviceSpec.parse(str(spec)) == spec


@given(DEVICES)
def test_a_whole_name_is_a_request_that_only_it_meets(device: DeviceName) -> None:
    spec = DeviceSpec.parse(str(device))
    other = DeviceName(device.job, device.task, device.type, device.index + 1)
    assert spec.matches(device)
    assert not spec.matches(other)


@given(SPECS, SPECS, DEVICES)
def test_the_inner_request_wins(inner: DeviceSpec, outer: DeviceSpec, device: DeviceName) -> None:
    merged = inner.merged_over(outer)
    assert inner.merged_over(merged) == merged
    assert inner.matches(device) or not merged.matches(device)


@given(
    st.builds(
        RendezvousKey,
        DEVICES.map(str),
        st.integers(1, 2**64 - 1),
        DEVICES.map(str),
        EDGES,
        st.integers(0, 2**64 - 1),
        st.integers(0, 10**6),
    )
)
def test_a_rendezvous_key_is_read_back(key: RendezvousKey) -> None:
    assert RendezvousKey.parse(str(key)) == key


@pytest.mark.parametrize("text", ["", "a;b;c;d", "a;0000000000000001;b;e;0", "a;1;b;e;0:0"])
def test_a_key_that_is_none_is_refused_with_the_rule(text: str) -> None:
    with pytest.raises(RendezvousKeyError, match="rendezvous key"):
        RendezvousKey.parse(text)


@pytest.mark.parametrize("text", ["worker", "worker:", "worker:-1", ":0", "worker:x", "1worker:0"])
def test_a_task_name_that_is_none_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="worker:0"):
        TaskName.parse(text)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("/job:ps/replica:1", "only replica 0"),
        ("/jobs:ps", "allowed are"),
        ("/job:ps/task:x", "must be a number"),
        ("/job:p-s", "must match"),
    ],
)
def test_a_device_that_is_none_is_refused_with_the_rule(text: str, hint: str) -> None:
    with pytest.raises(ValueError, match=hint):
        DeviceSpec.parse(text)


def test_a_partial_device_is_no_device_name() -> None:
    with pytest.raises(ValueError, match="whole device name"):
        DeviceName.parse("/job:ps/task:0")


def test_step_ids_are_random_and_fit_into_57_bits() -> None:
    ids = {new_step_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(0 < step < 2**57 for step in ids)
    assert max(ids) > 2**50


@given(st.text(max_size=8), st.integers(1, 10**9))
def test_processes_agree_on_a_steps_trace_without_talking(run: str, step: int) -> None:
    ours, theirs = (trace_of_step(run, "worker:0", step) for _ in range(2))
    assert ours == theirs
    assert ours.trace_id != trace_of_step(run, "worker:0", step + 1).trace_id
