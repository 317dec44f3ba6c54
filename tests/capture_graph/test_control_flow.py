"""`torch.cond` and `torch.while_loop` in a captured module run as Switch, Merge and loop frames."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.built import graph_alone
from tests.capture_graph.models import batches, eager_losses
from tests.clusters import running_cluster
from tests.runtime.graphs import CLUSTER, WORKER_0
from tracer.capture_graph.capture import CapturedStep, Evaluation, StepCapture, capture_step
from tracer.capture_graph.errors import CaptureError
from tracer.capture_graph.optimizers import SGD
from tracer.model.graph import Graph
from tracer.strategies.registry import STRATEGIES

while_loop: Callable[..., tuple[Tensor, Tensor]] = torch.while_loop


class Branching(nn.Module):
    """Which layer learns depends on the batch; buffers and in-place ops are beside the branches."""

    def __init__(self) -> None:
        super().__init__()
        self.some, self.other = nn.Linear(6, 3), nn.Linear(6, 3)
        self.register_buffer("seen", torch.zeros(()))
        self.seen: Tensor

    def forward(self, x: Tensor) -> Tensor:
        self.seen.add_(1)
        x = x * 2
        x += 1
        logits: Tensor = torch.cond(
            x.sum() > 36, lambda x: self.some(x).relu_(), lambda x: self.other(x).tanh(), (x,)
        )
        return logits


class Recurrent(nn.Module):
    """Reads a row pixel by pixel, `stop` of them."""

    def __init__(self, stop: int = 5) -> None:
        super().__init__()
        self.stop = stop
        self.pixel, self.state, self.head = nn.Linear(1, 4), nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.read(x, self.start(x)))
        return logits

    def start(self, x: Tensor) -> Tensor:
        return torch.zeros(len(x), 4, requires_grad=True)

    def read(self, x: Tensor, state: Tensor) -> Tensor:
        def goes_on(i: Tensor, _state: Tensor) -> Tensor:
            return i < self.stop

        def step(i: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
            return i + 1, self.step(i, x, state)

        return while_loop(goes_on, step, (torch.tensor(0), state))[1]

    def step(self, i: Tensor, x: Tensor, state: Tensor) -> Tensor:
        return torch.tanh(self.pixel(x.index_select(1, i.reshape(1))) + self.state(state))


class BranchingInALoop(Recurrent):
    """Even pixels are read by one layer, odd ones by the other."""

    def step(self, i: Tensor, x: Tensor, state: Tensor) -> Tensor:
        read: Tensor = torch.cond(
            i % 2 == 0,
            lambda pixel, state: self.pixel(pixel) * state.cos(),
            lambda _pixel, state: self.state(state),
            (x.index_select(1, i.reshape(1)), state),
        )
        return torch.tanh(read + state)


class LoopInALoop(Recurrent):
    """Goes over the row again and again."""

    def forward(self, x: Tensor) -> Tensor:
        _, state = while_loop(
            lambda i, _: i < 3,
            lambda i, state: (i + 1, self.read(x, state).sin()),
            (torch.tensor(0), self.start(x)),
        )
        logits: Tensor = self.head(state)
        return logits


class LoopInABranch(Recurrent):
    def forward(self, x: Tensor) -> Tensor:
        state = torch.cond(
            x.sum() > 0,
            self.read,
            lambda x, state: self.pixel(x[:, :1]) + state,
            (x, self.start(x)),
        )
        logits: Tensor = self.head(state)
        return logits


def losses(step: CapturedStep, data: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Of a run with the variables on a parameter server."""
    graph = graph_alone(STRATEGIES["parameter_server_v1"], step, WORKER_0, CLUSTER)
    with running_cluster("near", CLUSTER) as cluster:
        session = cluster.session(graph)
        session.run(step.init)
        found = []
        for batch in data:
            feeds = dict(zip(step.feeds, step.feed(batch), strict=True))
            found.append(session.run([step.loss, step.train], feeds)[0])
    return torch.stack(found)


def ops(graph: Graph) -> set[str]:
    return {node.op for node in graph.nodes}


@pytest.mark.parametrize(
    "make",
    [
        Branching,
        Recurrent,
        pytest.param(BranchingInALoop, marks=pytest.mark.slow),
        pytest.param(LoopInALoop, marks=pytest.mark.slow),
        pytest.param(LoopInABranch, marks=pytest.mark.slow),
    ],
)
def test_training_with_control_flow_is_eager_torchs(make: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    module, data = make(), batches(6)
    step = capture_step(module, functional.cross_entropy, SGD(0.3), data[0])
    expected = eager_losses(module, torch.optim.SGD(module.parameters(), 0.3), data)
    torch.testing.assert_close(losses(step, data), expected, rtol=1e-5, atol=1e-6)
    assert not any(op.startswith("higher_order") for op in ops(step.graph))


def test_a_loop_that_does_not_run_trains_what_is_around_it() -> None:
    """Torch itself goes back through an iteration here that never was."""
    torch.manual_seed(0)
    module, data = Recurrent(stop=0), batches(6, count=2)
    step = capture_step(module, functional.cross_entropy, SGD(0.3), data[0])
    head = nn.Linear(4, 3)
    head.load_state_dict(module.head.state_dict())
    plain = nn.Sequential(nn.Linear(6, 4, bias=False), head)
    nn.init.zeros_(plain[0].weight)  # type: ignore[arg-type]
    expected = eager_losses(plain, torch.optim.SGD(head.parameters(), 0.3), data)
    torch.testing.assert_close(losses(step, data), expected, rtol=1e-5, atol=1e-6)


def test_iterations_leave_what_the_backward_pass_needs_on_stacks_and_nothing_else() -> None:
    graph = capture_step(Recurrent(), functional.cross_entropy, SGD(0.1), batches(6)[0]).graph
    pushed = [node.inputs[1].node for node in graph.nodes if node.op == "StackPushV2"]
    assert sorted(pushed) == ["while_loop/Identity", "while_loop/Identity_1"]
    assert graph["while_loop/tanh"].source == graph["while_loop/LoopCond"].source.replace(
        graph["while_loop/LoopCond"].source.rpartition(":")[2],
        graph["while_loop/tanh"].source.rpartition(":")[2],
    )
    assert graph["gradients/while_loop/tanh_backward"].attrs["_phase"] == "backward"


def test_a_loop_is_judged_without_a_backward_pass() -> None:
    torch.manual_seed(0)
    module, (x, y) = Recurrent(), batches(6)[0]
    capture = StepCapture(module, functional.cross_entropy, SGD(0.1))
    judged = capture.evaluation(Evaluation((x, y), functional.cross_entropy))
    step = capture.step((x, y))
    with running_cluster("near", CLUSTER) as cluster:
        cluster.session(step.graph).run(step.init)
        feeds = dict(zip(judged.feeds, judged.feed((x, y)), strict=True))
        (metric,) = cluster.session(judged.graph).run([judged.metric], feeds)
    torch.testing.assert_close(metric, functional.cross_entropy(module(x), y).detach())
    assert not any("Stack" in op for op in ops(judged.graph))


class Faulty(nn.Module):
    def __init__(self, run: Callable[[nn.Linear, Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.run = nn.Linear(6, 6), run

    def forward(self, x: Tensor) -> Tensor:
        return self.run(self.layer, x)


def looped(step: Callable[[nn.Linear, Tensor, Tensor], Tensor], *, wants: bool = True) -> Faulty:
    def run(layer: nn.Linear, x: Tensor) -> Tensor:
        start = torch.zeros_like(x, requires_grad=wants)
        _, last = while_loop(
            lambda i, _: i < 3,
            lambda i, value: (i + 1, step(layer, i, value)),
            (torch.tensor(0), start),
        )
        result: Tensor = last
        return result

    return Faulty(run)


def written_view(layer: nn.Linear, x: Tensor) -> Tensor:
    x = x * 1
    x.view(-1).add_(1)
    result: Tensor = torch.cond(x.sum() > 0, layer, lambda x: x * 2, (x,))
    return result


@pytest.mark.parametrize(
    ("module", "says"),
    [
        (
            looped(lambda layer, _i, value: layer(value), wants=False),
            "through loop variable 1 of the while_loop at .*control_flow.py:.*requires_grad=True",
        ),
        (
            looped(lambda layer, i, value: layer(value)[i] + value),
            "test_control_flow.py.*index_select",
        ),
        (
            looped(lambda layer, _i, value: functional.dropout(layer(value))),
            "draws random numbers",
        ),
        (Faulty(written_view), "add_.*writes into a tensor.*another view"),
    ],
)
def test_what_torch_or_a_graph_cannot_do_is_refused_in_words(module: nn.Module, says: str) -> None:
    with pytest.raises(CaptureError, match=says):
        capture_step(module, functional.cross_entropy, SGD(0.1), batches(6)[0])
