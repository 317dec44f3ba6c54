"""checkpoint-restore: a perceptron that has something to lose, for runs in which tasks die.

    tracer run checkpoint-restore --strategy parameter_server_v1 --ps 2 --steps 40
           --checkpoint ckpt --checkpoint-every 10 --restart 1 --fault kill:ps:1@step:15

What to look at: ps:1 dies with half of the variables, and Adam's running means with them. Both
workers then make their sessions anew (`session.recover`), worker:0 restores every variable on every
parameter server (`checkpoint.restore`), and all go on from the step of that checkpoint: steps that
were run before are run again. In the Timeline ps:1 has two lives with a gap between them. Without
`--checkpoint` the run ends and names the variables that are gone.
"""

from typing import Annotated

from torch.nn import functional

from tracer.capture_graph.optimizers import Adam
from tracer.workloads.batching import Reading
from tracer.workloads.digits import digit_batches, digit_evaluation
from tracer.workloads.digits_mlp import DigitsMLP
from tracer.workloads.factory import AtLeast
from tracer.workloads.workload import Workload, seeded


def workload(
    batch: Annotated[int, AtLeast(1), "images in a batch"] = 64,
    rate: Annotated[float, AtLeast(0.0), "Adam's learning rate"] = 0.01,
) -> Workload:
    """digits-mlp with Adam, whose slots are lost with a task too: to be killed and restored."""
    return Workload(
        make_module=seeded(DigitsMLP),
        loss=functional.cross_entropy,
        optimizer=Adam(rate),
        batches=digit_batches(Reading(batch, drop_remainder=True)),
        evaluation=digit_evaluation,
    )
