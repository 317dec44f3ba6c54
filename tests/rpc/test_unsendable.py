"""Values that no frame can carry."""

from typing import Any

import pytest

from tests.rpc.fake_worker import numbered
from tests.rpc.tasks import Task, pull
from tracer.rpc.channels import NOT_SAMPLED
from tracer.runtime.interfaces import RunStepRequest, RunStepResult, StepError

pytestmark = pytest.mark.usefixtures("clean")


def test_a_value_that_cannot_be_sent_is_an_error_of_the_task_that_has_it(
    pair: tuple[Task, Task],
) -> None:
    ps, worker = pair
    unsendable: Any = object()
    worker.master.on_step = lambda _, done: done(RunStepResult({"y:0": unsendable}, 5))
    client = worker.dial()
    request = RunStepRequest("s", {"x:0": numbered(1)}, ("y:0",), (), NOT_SAMPLED)
    with pytest.raises(StepError, match="the answer cannot be sent: ") as fetched:
        client.run_step(request)
    client.close()
    assert (fetched.value.code, fetched.value.task) == ("INTERNAL", "worker:0")
    arrivals = pull(worker.stub_of(ps), "k")
    ps.worker.table(1).send("k", unsendable)
    error = arrivals.error()
    assert (error.code, error.task) == ("INTERNAL", "ps:0")
