"""Steps of real TensorFlow, computed by kernels of a real GPU."""

import pytest

from tests.golden_cases import CASES, CONTROL_FLOW_CASES
from tests.golden_on_gpus import check_step_on_gpus
from tracer.runtime.cuda import CUDA
from tracer.runtime.worker_env import ExecutorKind


@pytest.mark.parametrize("executor", ["generated", "queue"])
@pytest.mark.parametrize("case", [*CASES, *CONTROL_FLOW_CASES])
def test_a_step_on_gpus_gives_what_tensorflow_gave(case: str, executor: ExecutorKind) -> None:
    check_step_on_gpus(case, executor, CUDA, None)
