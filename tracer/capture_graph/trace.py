"""A function of flat tensors → an fx graph without in-place ops, each op with its origin."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
)
from torch.fx.experimental.proxy_tensor import make_fx

from tracer.capture_graph.errors import CaptureError
from tracer.capture_graph.in_place import flow_of, without_in_place
from tracer.capture_graph.optimizers import Optimizer
from tracer.capture_graph.origins import OriginRecorder, mark_new_nodes, origin_of, users_line
from tracer.capture_graph.state import StateValues

LossFn = Callable[[Any, Tensor], Tensor]
Outputs = dict[str, Any]  # name → traced tensor


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
    """Forward, backward, update. Outputs: `loss`, `new:<variable>` for what changes, and `outputs`.

    The last one only where the module returns one tensor.
    """

    def step(recorder: OriginRecorder, given: Mapping[str, Tensor]) -> Outputs:
        parameters = {name: given[name].requires_grad_() for name in state.parameters}
        buffers = {name: given[name].clone() for name in state.buffers}

        def run() -> Outputs:
            with recorder.layers(module):
                outputs = module(given["x"])
            with recorder.scope("loss"):
                loss = loss_fn(outputs, given["y"])
            _check_loss(loss)
            recorder.turn_back(loss)
            wanted = list(parameters.values())
            gradients = torch.autograd.grad(loss, wanted, allow_unused=True)
            recorder.phase = "update"
            with torch.no_grad():
                by_name = dict(zip(parameters, gradients, strict=True))
                new = _updated(optimizer, state, given, by_name)
            return {"loss": loss, **_named(outputs), **_buffers_after(module, state), **new}

        return _with_values(module, {**parameters, **buffers}, run)

    return _trace(step, {**state.flat(), **batch})


def _check_loss(loss: Any) -> None:
    if not isinstance(loss, Tensor):
        raise CaptureError(f"the loss is a {type(loss).__name__}; a step needs a tensor")
    if loss.dim():
        raise CaptureError(
            f"the loss has shape {list(loss.shape)}; a step needs one number, so reduce it "
            "(for example with .mean())"
        )
    if not loss.requires_grad:
        raise CaptureError(
            "the loss depends on no parameter that wants a gradient, so there is nothing to train; "
            "look for a detach(), a no_grad, or requires_grad_(False)"
        )


def _named(outputs: Any) -> Outputs:
    """What the module returned, if it is one tensor; anything else is for the loss alone."""
    return {"outputs": outputs} if isinstance(outputs, Tensor) else {}


def _buffers_after(module: nn.Module, state: StateValues) -> Outputs:
    """What the forward pass left in the buffers, by writing into them or by replacing them."""
    now = {name.replace(".", "/"): buffer for name, buffer in module.named_buffers()}
    return {f"new:{name}": now[name] for name in state.buffers if name in now}


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

        def run() -> Outputs:
            with torch.no_grad(), recorder.layers(module):
                outputs = module(given["x"])
            with torch.no_grad(), recorder.scope("metric"):
                return {"metric": metric(outputs, given["y"]), **_named(outputs)}

        return _with_values(module, values, run)

    modes = [(layer, layer.training) for layer in module.modules()]
    try:
        module.eval()
        return _trace(evaluate, {**state.parameters, **state.buffers, **batch})
    finally:
        for layer, mode in modes:
            layer.training = mode


class _Whole(nn.Module):
    """Anything that is done with a module, as a module around it."""

    def __init__(self, module: nn.Module, run: Callable[[], Outputs]) -> None:
        super().__init__()
        self.module = module
        self.run = run

    def forward(self) -> Outputs:
        return self.run()


def _with_values(
    module: nn.Module, values: Mapping[str, Tensor], run: Callable[[], Outputs]
) -> Outputs:
    """`run` while the module holds these values.

    Loss and backward pass run inside too: a penalty reads parameters, a checkpoint runs layers
    again, and the module's own values would be constants of the graph.
    """
    named = {f"module.{name.replace('/', '.')}": value for name, value in values.items()}
    outputs: Outputs = torch.func.functional_call(_Whole(module, run), named, ())
    return outputs


def _trace(
    function: Callable[[OriginRecorder, Mapping[str, Tensor]], Outputs],
    examples: Mapping[str, Tensor],
) -> Traced:
    """Two passes: the second takes in-place ops out (a view that is written to, a counter).

    Torch cannot do that to a step with loops in it, so there it is done by rewriting.
    """
    output_names: list[str] = []

    def flat(*values: Tensor) -> list[Any]:
        with OriginRecorder() as recorder:
            result = function(recorder, dict(zip(examples, values, strict=True)))
        output_names[:] = result
        return list(result.values())

    tensors = [tensor.detach() for tensor in examples.values()]  # make_fx tells inputs by identity
    first = _make_fx(flat, tensors)
    if any(map(flow_of, first.graph.nodes)):
        second = without_in_place(first)
    else:
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
    given = (x, weight, bias, mean, variance)
    is_training, *settings = rest
    if not is_training:
        return _aten._native_batch_norm_legit_no_training.default(*given, *settings)
    return _aten._native_batch_norm_legit.default(*given, *rest)


_aten = torch.ops.aten
_TWINS = {_aten.native_batch_norm.default: _honest_batch_norm}


def _make_fx(function: Callable[..., Any], tensors: Sequence[Tensor]) -> torch.fx.GraphModule:
    trace = make_fx(function, _TWINS, tracing_mode="fake", _allow_non_fake_inputs=True)
    try:
        with _static_shapes():
            return trace(*tensors)
    except RuntimeError as error:
        where = users_line(error.__traceback__)
        if type(error).__module__ == "torch._dynamo.exc":  # what reads branches and bodies
            raise CaptureError(_no_control_flow(where, error)) from error
        if not _asks_for_a_value(error):
            raise
        raise CaptureError(
            f"{where or 'the step'} asks for the value of a tensor, or for a shape that follows "
            "from one, and there is none before the graph runs; compute with torch.where, or "
            "decide before the step"
        ) from error


_one_at_a_time = RLock()  #: torch's settings, and Python's filters of warnings, are a process's


@contextmanager
def _static_shapes() -> Iterator[None]:
    """What reads branches and bodies would take a size that once was another for a variable.

    It also looks for a `.grad` of whatever comes in, and torch warns of that.
    """
    import torch._dynamo.config as reading  # noqa: PLC0415 (make_fx imports it anyway)

    settings = reading.patch(automatic_dynamic_shapes=False)
    with _one_at_a_time, settings, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The .grad attribute of a Tensor that is not a leaf")
        yield


def _no_control_flow(where: str, error: RuntimeError) -> str:
    why = " ".join(str(error).partition("\n\n")[0].split())
    return (
        f"{where or 'the step'} holds a torch.cond or while_loop that torch {torch.__version__} "
        f"cannot trace or differentiate: {why:.400}. Branches and bodies must give tensors of one "
        "dtype, shape and stride, ask for no values (take a row by index_select), and count with a "
        "tensor"
    )


def _asks_for_a_value(error: RuntimeError) -> bool:
    # brings sympy, half a second that every task of a run would pay
    from torch.fx.experimental.symbolic_shapes import (  # noqa: PLC0415
        GuardOnDataDependentSymNode,
    )

    needs = (DataDependentOutputException, DynamicOutputShapeException, GuardOnDataDependentSymNode)
    return isinstance(error, needs)


class _Replay(torch.fx.Interpreter):
    """Runs a traced graph again; what this creates inherits the origin of the node that is run."""

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        if n.op == "call_function":
            mark_new_nodes(origin_of(n))
        return result
