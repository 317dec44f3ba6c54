"""A captured step is a graph that computes what eager torch computes, and reads like the model."""

from collections.abc import Mapping

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

from tests.capture_graph.models import (
    Attending,
    Block,
    Convolutional,
    Perceptron,
    assert_same_state,
    batches,
    captured_losses,
    eager_losses,
    texts,
)
from tests.ops.graph_runner import GraphRunner, PlainResources
from tracer.capture_graph.capture import (
    Batch,
    Evaluation,
    StepCapture,
    capture_step,
    variables_of,
)
from tracer.capture_graph.errors import CaptureError
from tracer.capture_graph.optimizers import SGD
from tracer.model.graph import Graph, Node, TensorSpec


class DecayedSGD:
    """An update rule that nothing recognises."""

    def slots(self, parameter: Tensor) -> Mapping[str, Tensor]:
        return {"Mean": torch.zeros_like(parameter)}

    def update(
        self, parameter: Tensor, gradient: Tensor, slots: Mapping[str, Tensor]
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        mean = torch.lerp(slots["Mean"], gradient, 0.25)
        return parameter * 0.99 - mean.mul(0.1), {"Mean": mean}


def ops(graph: Graph, op: str) -> list[Node]:
    return [node for node in graph.nodes if node.op == op]


@pytest.mark.parametrize(
    ("make", "data"),
    [
        (Perceptron, batches(6)),
        (Convolutional, batches(16, count=20)),
        (Attending, batches(16, count=20)),
        (Block, texts(count=20)),
    ],
)
def test_captured_steps_equal_eager_torch_state_included(
    make: type[nn.Module], data: list[Batch]
) -> None:
    torch.manual_seed(0)
    module = make()
    step = capture_step(module, functional.cross_entropy, SGD(0.1, 0.9), data[0])
    runner = GraphRunner(step.graph)
    optimizer = torch.optim.SGD(module.parameters(), 0.1, 0.9)

    got, expected = captured_losses(step, runner, data), eager_losses(module, optimizer, data)

    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)
    assert_same_state(runner, module, optimizer, {"momentum_buffer": "Momentum"})


def test_capturing_leaves_the_module_as_it_was() -> None:
    module = Convolutional().eval()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    evaluation = Evaluation(batches(16)[1], functional.cross_entropy)
    capture_step(module, functional.cross_entropy, SGD(0.1), batches(16)[0], evaluation=evaluation)
    assert not module.training
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert not any(layer._forward_hooks for layer in module.modules())


def test_one_read_and_one_update_belong_to_each_variable() -> None:
    graph = capture_step(Perceptron(), functional.cross_entropy, SGD(0.1), batches(6)[0]).graph
    names = ["fc1/weight", "fc1/bias", "fc2/weight", "fc2/bias"]
    assert [v.name for v in variables_of(graph)] == names
    assert [r.inputs[0].node for r in ops(graph, "ReadVariableOp")] == names
    updates = ops(graph, "ResourceApplyGradientDescent")
    assert [u.inputs[0].node for u in updates] == names
    assert graph["train"].control_inputs == tuple(u.name for u in updates)
    assert graph["init"].control_inputs == tuple(f"{name}/Assign" for name in names)


@pytest.mark.parametrize("optimizer", [SGD(0.1), SGD(0.1, 0.9), DecayedSGD()])
def test_with_variables_elsewhere_each_value_and_each_gradient_crosses_once(
    optimizer: SGD | DecayedSGD,
) -> None:
    graph = capture_step(Perceptron(), functional.cross_entropy, optimizer, batches(6)[0]).graph
    handles = {v.name for v in variables_of(graph)}

    def is_far(name: str) -> bool:
        node = graph[name]
        return bool(node.colocated_with) or any(i.node in handles for i in node.inputs)

    crossing = {
        (edge.src, edge.src_port) for edge in graph.edges() if is_far(edge.src) != is_far(edge.dst)
    }
    size = sum(p.numel() * 4 for p in Perceptron().parameters())
    assert len(crossing) == 8
    moved = [graph[name].specs[port or 0].num_bytes for name, port in crossing if port is not None]
    assert sum(moved) == 2 * size


def test_nodes_are_named_by_layer_and_phase() -> None:
    graph = capture_step(Perceptron(), functional.cross_entropy, SGD(0.1), batches(6)[0]).graph
    phases = {
        "fc1/weight/Read": "read",
        "fc1/addmm": "forward",
        "relu": "forward",
        "loss/nll_loss_forward": "forward",
        "gradients/fc2/mm": "backward",
        "gradients/threshold_backward": "backward",
        "gradients/fc1/mm": "backward",
        "train/update_fc1/weight": "update",
    }
    assert {name: graph[name].attrs["_phase"] for name in phases} == phases


def test_a_node_and_its_gradient_know_the_users_line() -> None:
    graph = capture_step(Perceptron(), functional.cross_entropy, SGD(0.1), batches(6)[0]).graph
    line = Perceptron.forward.__code__.co_firstlineno + 1
    assert graph["fc1/addmm"].source == f"capture_graph/models.py:{line}"
    assert graph["gradients/fc1/mm"].source == graph["fc1/addmm"].source


def test_views_are_marked_for_folding_and_detach_is_gone() -> None:
    graph = capture_step(Perceptron(), functional.cross_entropy, SGD(0.1), batches(6)[0]).graph
    folded = {node.op for node in graph.nodes if node.attrs.get("_fold")}
    assert folded == {"aten.t.default", "aten.view.default"}
    assert not ops(graph, "aten.detach.default")


def test_an_unknown_update_rule_ends_in_assignments_beside_its_variable() -> None:
    torch.manual_seed(0)
    module, data, rule = Perceptron(), batches(6), DecayedSGD()
    values = {name: p.detach().clone() for name, p in module.named_parameters()}
    means = {name: torch.zeros_like(p) for name, p in values.items()}
    step = capture_step(module, functional.cross_entropy, rule, data[0])
    runner = GraphRunner(step.graph)

    captured_losses(step, runner, data)
    for x, y in data:
        leaves = {name: value.requires_grad_() for name, value in values.items()}
        loss = functional.cross_entropy(torch.func.functional_call(module, leaves, (x,)), y)
        gradients = torch.autograd.grad(loss, list(leaves.values()))
        for name, gradient in zip(leaves, gradients, strict=True):
            new, slots = rule.update(values[name].detach(), gradient, {"Mean": means[name]})
            values[name], means[name] = new, slots["Mean"]

    assert len(ops(step.graph, "AssignVariableOp")) == 8 + 8  # first values, updates with slots
    for name, value in values.items():
        ours = runner.resources[name.replace(".", "/")].value
        torch.testing.assert_close(ours, value, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("apart", [False, True])
def test_evaluation_runs_in_eval_mode_on_the_same_variables(apart: bool) -> None:
    torch.manual_seed(0)
    module, data = Convolutional(), batches(16)
    x, y = batches(16, rows=5)[0]
    held_out = Evaluation((x, y), functional.cross_entropy)
    capture = StepCapture(module, functional.cross_entropy, SGD(0.3))
    step = capture.step(data[0], evaluation=None if apart else held_out)
    runner = GraphRunner(step.graph)
    captured_losses(step, runner, data)
    eager_losses(module, torch.optim.SGD(module.parameters(), 0.3), data)

    if apart:
        judged = capture.evaluation(held_out)
        feeds = dict(zip(judged.feeds, judged.feed((x, y)), strict=True))
        (metric,) = GraphRunner(judged.graph, runner.resources).run(judged.metric, feeds=feeds)
    else:
        feeds = dict(zip(step.evaluation_feeds, step.evaluation_feed((x, y)), strict=True))
        (metric,) = runner.run(step.metric, feeds=feeds)

    expected = functional.cross_entropy(module.eval()(x), y).detach()
    torch.testing.assert_close(metric, expected, rtol=1e-6, atol=1e-6)


def test_an_evaluation_reads_running_statistics_and_draws_and_assigns_nothing() -> None:
    capture = StepCapture(Convolutional(), functional.cross_entropy, SGD(0.1))
    graph = capture.evaluation(Evaluation(batches(16)[0], functional.cross_entropy)).graph
    (norm,) = ops(graph, "aten._native_batch_norm_legit_no_training.default")
    assert {"norm/running_mean/Read", "norm/running_var/Read"} <= {i.node for i in norm.inputs}
    assert not ops(graph, "aten.bernoulli.p")
    assert not any(name.startswith("train") for name in graph)


@settings(max_examples=6, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=2, max_size=4))
def test_whatever_the_rows_of_each_batch_training_is_eager_torchs(rows: list[int]) -> None:
    torch.manual_seed(0)
    module, resources, losses = Perceptron(), PlainResources(), []
    capture = StepCapture(module, functional.cross_entropy, SGD(0.3, 0.9))
    data = [batches(6, rows=count, count=1)[0] for count in rows]
    for number, batch in enumerate(data):
        step = capture.step(batch)
        runner = GraphRunner(step.graph, resources)
        if number == 0:
            runner.run(step.init)
        feeds = dict(zip(step.feeds, step.feed(batch), strict=True))
        losses += runner.run(step.loss, step.train, feeds=feeds)[:1]
    expected = eager_losses(module, torch.optim.SGD(module.parameters(), 0.3, 0.9), data)
    torch.testing.assert_close(losses, [*expected], rtol=1e-5, atol=1e-6)


def test_a_slot_is_read_before_a_value_that_does_not_depend_on_it_is_assigned() -> None:
    class OneStepLate:
        def slots(self, parameter: Tensor) -> Mapping[str, Tensor]:
            return {"Last": torch.zeros_like(parameter)}

        def update(
            self, parameter: Tensor, gradient: Tensor, slots: Mapping[str, Tensor]
        ) -> tuple[Tensor, Mapping[str, Tensor]]:
            return parameter - slots["Last"] * 0.1, {"Last": gradient}

    graph = capture_step(Perceptron(), functional.cross_entropy, OneStepLate(), batches(6)[0]).graph
    assert graph["train/update_fc1/bias/Last"].control_inputs == ("fc1/bias/Last/Read",)


def test_a_batch_of_another_shape_gets_a_graph_over_the_same_variables() -> None:
    torch.manual_seed(0)
    module, data = Perceptron(), batches(6)
    data[3] = data[3][0][:3], data[3][1][:3]  # a short last batch
    capture = StepCapture(module, functional.cross_entropy, SGD(0.3, 0.9))
    steps = {capture.signature(batch): capture.step(batch) for batch in data}
    resources = PlainResources()
    runners = {signature: GraphRunner(s.graph, resources) for signature, s in steps.items()}

    runners[capture.signature(data[0])].run("init")
    losses = []
    for batch in data:
        step, runner = steps[capture.signature(batch)], runners[capture.signature(batch)]
        feeds = dict(zip(step.feeds, step.feed(batch), strict=True))
        losses += runner.run(step.loss, step.train, feeds=feeds)[:1]

    assert len(steps) == 2
    optimizer = torch.optim.SGD(module.parameters(), 0.3, 0.9)
    torch.testing.assert_close(losses, [*eager_losses(module, optimizer, data)])
    for name, parameter in module.named_parameters():
        kept = optimizer.state[parameter]["momentum_buffer"]
        slot = resources[f"{name.replace('.', '/')}/Momentum"].value
        torch.testing.assert_close(slot, kept, rtol=1e-6, atol=1e-6)


def test_graphs_of_one_capture_declare_the_same_variables_in_one_order() -> None:
    capture = StepCapture(Convolutional(), functional.cross_entropy, SGD(0.1, 0.9))
    (x, y), held_out = batches(16)[0], Evaluation(batches(16)[1], functional.cross_entropy)
    whole, short = capture.step((x, y), evaluation=held_out), capture.step((x[:4], y[:4]))
    assert whole.signature != short.signature
    judged = capture.evaluation(held_out)
    assert variables_of(whole.graph) == variables_of(short.graph) == variables_of(judged.graph)
    assert judged.feeds == whole.evaluation_feeds


def test_a_signature_is_the_dtype_and_the_shape_of_each_feed() -> None:
    capture = StepCapture(Perceptron(), functional.cross_entropy, SGD(0.1))
    assert capture.signature(batches(6)[0]).feeds == (
        ("x", TensorSpec("float32", (8, 6))),
        ("y", TensorSpec("int64", (8,))),
    )


def test_a_batch_without_rows_is_refused_in_words() -> None:
    capture = StepCapture(Perceptron(), functional.cross_entropy, SGD(0.1))
    x, y = batches(6)[0]
    with pytest.raises(CaptureError, match=r"no rows \(shapes \[0, 6\] and \[0\]\).*leave"):
        capture.step((x[:0], y[:0]))


def test_a_frozen_parameter_is_read_and_never_updated() -> None:
    module = Perceptron()
    module.fc1.weight.requires_grad_(False)
    graph = capture_step(module, functional.cross_entropy, SGD(0.1), batches(6)[0]).graph
    assert "fc1/weight/Read" in graph
    assert "train/update_fc1/weight" not in graph
