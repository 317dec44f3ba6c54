"""A worker whose data are at their end still has every variable, gradient and collective."""

import torch
from torch import nn
from torch.nn import functional

from tests.built import given
from tests.strategies.sessions import DEVICES, session
from tracer.capture_graph.capture import StepCapture
from tracer.capture_graph.optimizers import SGD
from tracer.model.graph_builder import GraphBuilder
from tracer.strategies.distributed_step import captured_steps
from tracer.strategies.distribution import Distribution
from tracer.strategies.step_builder import StepBuilder

NOTHING = torch.empty(0, 3), torch.empty(0, 2)


def test_replicas_without_rows_give_zeros_and_ask_for_no_feeds() -> None:
    module = nn.Linear(3, 2)
    capture = StepCapture(module, functional.mse_loss, SGD(0.1))
    steps = captured_steps(capture, given(NOTHING, NOTHING))
    builder = GraphBuilder()
    step = StepBuilder(Distribution(builder, DEVICES[:2]), steps, [0.0, 0.0]).build()
    assert step.feeds == ()
    assert step.feed([NOTHING, NOTHING], [1, 2]) == ()
    with session(builder) as opened:
        opened.run(step.init)
        loss, _, losses = opened.run([step.loss, step.train, step.losses])
        assert loss.item() == 0
        assert losses.isnan().all(), "the mean over no rows is no number"
    assert {"weight", "weight/replica_1", "bias", "bias/replica_1"} <= set(step.graph)
    updates = [node for node in step.graph.nodes if node.op == "ResourceApplyGradientDescent"]
    assert len(updates) == 4
