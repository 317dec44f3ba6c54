"""A function of flat tensors → an fx graph without in-place ops, each op with its origin."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx

from tracer.capture_graph.optimizers import Optimizer
from tracer.capture_graph.origins import OriginRecorder, mark_new_nodes, origin_of
from tracer.capture_graph.state import StateValues

LossFn = Callable[[Any, Tensor], Tensor]
Outputs = dict[str, Any]  # name → traced tensor


class CaptureError(ValueError):
    """A module whose step cannot be a graph; the text says what stands in the way."""


@dataclass(frozen=True, slots=True)
class Traced:
    """An fx graph. `inputs` and `outputs` are its placeholders and results by name."""

    module: torch.fx.GraphModule
    inputs: Mapping[str, torch.fx.Node]
    outputs: Mapping[str, torch.fx.Node]


def trace_step(
    module: nn.Module,
    loss_fn: LossFn,
    optimizer: Optimizer,
    state: StateValues,
    batch: Mapping[str, Tensor],
) -> Traced:
    """Forward, backward, update. Outputs: `loss`, `outputs`, `new:<variable>` for what changes."""

    def step(recorder: OriginRecorder, given: Mapping[str, Tensor]) -> Outputs:
        parameters = {name: given[name].requires_grad_() for name in state.parameters}
        buffers = {name: given[name].clone() for name in state.buffers}
        with recorder.layers(module):
            outputs = _call(module, {**parameters, **buffers}, given["x"])
        recorder.claim(outputs)
        with recorder.scope("loss"):
            loss = loss_fn(outputs, given["y"])
            recorder.claim(loss)
        if loss.dim():
            raise CaptureError(
                f"the loss has shape {list(loss.shape)}; a step needs one number, so reduce it "
                "(for example with .mean())"
            )
        recorder.phase = "backward"
        with recorder.scope(""):
            gradients = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
        recorder.phase = "update"
        with torch.no_grad():
            new = _updated(optimizer, state, given, dict(zip(parameters, gradients, strict=True)))
        kept = {f"new:{name}": value for name, value in buffers.items()}
        return {"loss": loss, "outputs": outputs, **kept, **new}

    return _trace(step, {**state.flat(), **batch})


def _updated(
    optimizer: Optimizer,
    state: StateValues,
    given: Mapping[str, Tensor],
    gradients: Mapping[str, Tensor | None],
) -> Outputs:
    new: Outputs = {}
    for name, gradient in gradients.items():
        if gradient is None:  # the loss does not depend on this parameter
            continue
        slots = {slot: given[f"{name}/{slot}"] for slot in state.slots[name]}
        new[f"new:{name}"], changed = optimizer.update(given[name], gradient, slots)
        new |= {f"new:{name}/{slot}": value for slot, value in changed.items()}
    return new


def trace_evaluation(
    module: nn.Module, metric: LossFn, state: StateValues, batch: Mapping[str, Tensor]
) -> Traced:
    """The forward pass in eval mode. Outputs: `metric`, `outputs`."""

    def evaluate(recorder: OriginRecorder, given: Mapping[str, Tensor]) -> Outputs:
        values = {name: given[name] for name in (*state.parameters, *state.buffers)}
        with torch.no_grad(), recorder.layers(module):
            outputs = _call(module, values, given["x"])
        with torch.no_grad(), recorder.scope("metric"):
            return {"metric": metric(outputs, given["y"]), "outputs": outputs}

    was_training = module.training
    try:
        module.eval()
        return _trace(evaluate, {**state.parameters, **state.buffers, **batch})
    finally:
        module.train(was_training)


def _call(module: nn.Module, values: Mapping[str, Tensor], x: Tensor) -> Any:
    named = {name.replace("/", "."): value for name, value in values.items()}
    return torch.func.functional_call(module, named, (x,))


def _trace(
    function: Callable[[OriginRecorder, Mapping[str, Tensor]], Outputs],
    examples: Mapping[str, Tensor],
) -> Traced:
    """Two passes: the second takes in-place ops out (a view that is written to, a counter)."""
    output_names: list[str] = []

    def flat(*values: Tensor) -> list[Any]:
        with OriginRecorder() as recorder:
            result = function(recorder, dict(zip(examples, values, strict=True)))
        output_names[:] = result
        return list(result.values())

    tensors = [tensor.detach() for tensor in examples.values()]  # make_fx tells inputs by identity
    first = _make_fx(flat, tensors)
    second = _make_fx(torch.func.functionalize(_Replay(first).run), tensors)
    placeholders = [node for node in second.graph.nodes if node.op == "placeholder"]
    (results,) = next(node for node in second.graph.nodes if node.op == "output").args
    return Traced(
        second,
        dict(zip(examples, placeholders, strict=True)),
        dict(zip(output_names, results, strict=True)),
    )


def _honest_batch_norm(*args: Any) -> Any:
    """`native_batch_norm` writes running statistics without saying so; this twin says it."""
    x, weight, bias, mean, variance, *rest = args
    if mean is None or variance is None:
        return _aten._native_batch_norm_legit.no_stats(x, weight, bias, *rest)
    return _aten._native_batch_norm_legit.default(x, weight, bias, mean, variance, *rest)


_aten = torch.ops.aten
_TWINS = {_aten.native_batch_norm.default: _honest_batch_norm}


def _make_fx(function: Callable[..., Any], tensors: Sequence[Tensor]) -> torch.fx.GraphModule:
    trace = make_fx(function, _TWINS, tracing_mode="fake", _allow_non_fake_inputs=True)
    return trace(*tensors)


class _Replay(torch.fx.Interpreter):
    """Runs a traced graph again; what this creates inherits the origin of the node that is run."""

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        if n.op == "call_function":
            mark_new_nodes(origin_of(n))
        return result
