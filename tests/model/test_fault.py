"""Faults as a user writes them: what they mean, and what is said of those that mean nothing."""

import pytest

from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.fault import Fault, FaultError, Kind, check_faults, faults_from

CLUSTER = ClusterSpec.of_counts(ps=1, worker=2)


def test_several_are_read_in_order_and_written_as_they_were_read() -> None:
    text = "kill:ps:0@step:15,delay=50:worker:1@step:3"
    kill, delay = faults_from(text)
    assert kill == Fault(Kind.KILL, TaskName("ps", 0), 15)
    assert (delay.kind, delay.delay_ms, delay.step) == (Kind.DELAY, 50, 3)
    assert ",".join(map(str, (kill, delay))) == text
    assert faults_from("") == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kill", "such as kill:ps:1@step:15"),
        ("kill:ps:1", "such as kill:ps:1@step:15"),
        ("kill:ps:one@step:3", "such as kill"),
        ("kil:ps:0@step:3", "did you mean kill"),
        ("kill:ps:0@step:0", "steps count from 1"),
        ("kill=3:ps:0@step:1", "kill takes no value"),
        ("delay:ps:0@step:1", "a delay is in milliseconds"),
        ("delay=:ps:0@step:1", "a delay is in milliseconds"),
        ("delay=0:ps:0@step:1", "1 to 3600000"),
        ("delay=1.5:ps:0@step:1", "a delay is in milliseconds"),
        ("delay=99999999999:ps:0@step:1", "1 to 3600000"),
        ("kill:ps:0@step:1,", "--fault : write KIND"),
    ],
)
def test_a_fault_that_cannot_be_read_is_refused_with_the_rule(text: str, says: str) -> None:
    with pytest.raises(FaultError, match=says):
        faults_from(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kill:ps:1@step:3", "there is no task ps:1; there are ps:0, worker:0, worker:1"),
        ("kill:chief:0@step:3", "there is no task chief:0"),
        ("kill:ps:0@step:31", "the run has 30 steps"),
    ],
)
def test_a_fault_that_could_never_happen_is_refused(text: str, says: str) -> None:
    with pytest.raises(FaultError, match=says):
        check_faults(faults_from(text), CLUSTER, 30)


def test_frames_cannot_fail_where_there_is_one_task() -> None:
    alone = ClusterSpec.of_counts(worker=1)
    check_faults(faults_from("kill:worker:0@step:1"), alone, 30)
    with pytest.raises(FaultError, match="worker:0 is alone"):
        check_faults(faults_from("drop:worker:0@step:1"), alone, 30)
