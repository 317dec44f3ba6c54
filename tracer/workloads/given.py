"""What a user's factory may return, and the workload that becomes of it.

    {"module": model, "loss": loss, "data": data}      a module and loss(outputs, y) → one number
    "data"        (x, y): two tensors of rows; or what yields pairs (x, y), such as a DataLoader;
                  or a function of an InputContext that gives either for one input pipeline
    "batch"       rows of a batch of two tensors (32)
    "optimizer"   torch.optim.SGD or Adam (Adam with torch's defaults)
    "evaluation"  (x, y) that no batch contains, and
    "metric"      metric(outputs, y) → one number, which the run prints by this function's name

or a `Workload`, which says the same in functions of the seed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset

from tracer.capture_graph.capture import Evaluation
from tracer.model.refusal import did_you_mean
from tracer.strategies.inputs.dataset import DataError
from tracer.strategies.inputs.distribute import InputContext
from tracer.workloads.batching import (
    Batches,
    Reading,
    batches_from_function,
    batches_of,
    pair,
    ready_batches,
    row_batches,
)
from tracer.workloads.factory import FactoryError
from tracer.workloads.graph_workload import GraphWorkload
from tracer.workloads.torch_optimizers import read_optimizer
from tracer.workloads.users_code import in_users_code
from tracer.workloads.workload import Workload

REQUIRED = ("module", "loss", "data")
KEYS = (*REQUIRED, "batch", "optimizer", "evaluation", "metric")
BATCH = 32

_GRAPH_RULE = "def make() -> GraphWorkload"
_RULE = 'return {"module": a torch module, "loss": loss(outputs, y), "data": pairs (x, y)}'


def workload_of(given: object, name: str) -> Workload:
    """Raises FactoryError for what is none; takes a first batch, so that data are looked at."""
    if isinstance(given, Workload):
        return given
    if isinstance(given, GraphWorkload):
        raise FactoryError(f"{name} returned a graph; its function must say so: {_GRAPH_RULE}")
    if not isinstance(given, Mapping):
        raise FactoryError(f"{name} returned {_kind(given)}; {_RULE}, or a Workload")
    _check_keys(given, name)
    module, loss = given["module"], given["loss"]
    _check_module(module, name)
    if not callable(loss):
        raise FactoryError(f"'loss' of {name} is {_kind(loss)}; it must be a function (outputs, y)")
    evaluation = _evaluation(given, name)
    try:
        batches = _batches(given["data"], given.get("batch"))
        in_users_code(f"'data' of {name}", lambda: next(batches(0, 0, 1)))
    except DataError as error:
        raise FactoryError(f"'data' of {name}: {error}") from None
    given_optimizer = given.get("optimizer", torch.optim.Adam)
    optimizer = in_users_code(
        f"'optimizer' of {name}", lambda: read_optimizer(given_optimizer, module)
    )
    return Workload(
        make_module=lambda _seed: module,  # the factory was called under the seed
        loss=loss,
        optimizer=optimizer,
        batches=batches,
        evaluation=lambda: evaluation,
    )


def graph_of(given: object, name: str) -> GraphWorkload:
    """Raises FactoryError."""
    if isinstance(given, GraphWorkload):
        return given
    raise FactoryError(f"{name} returned {_kind(given)}, and its function says: {_GRAPH_RULE}")


def _check_keys(given: Mapping[Any, Any], name: str) -> None:
    for key in given:
        if key not in KEYS:
            hint = did_you_mean(str(key), KEYS) or "."
            raise FactoryError(f"{name} returned {key!r}{hint} Known are: {', '.join(KEYS)}")
    if missing := [key for key in REQUIRED if key not in given]:
        raise FactoryError(f"{name} returned no {' and no '.join(map(repr, missing))}; {_RULE}")


def _check_module(module: Any, name: str) -> None:
    if not isinstance(module, nn.Module):
        raise FactoryError(f"'module' of {name} is {_kind(module)}; it must be a torch.nn.Module")
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise FactoryError(f"'module' of {name} has no parameter that could be trained; give one")
    for where, value in (*module.named_parameters(), *module.named_buffers()):
        if value.device.type != "cpu":
            raise FactoryError(
                f"'module' of {name} has {where} on {value.device}; leave the module on the CPU: "
                "--devices says where it runs"
            )


def _evaluation(given: Mapping[str, Any], name: str) -> Evaluation | None:
    if ("evaluation" in given) != ("metric" in given):
        raise FactoryError(
            f"{name} returned one of 'evaluation' (x, y) and 'metric' (a function of outputs and y)"
            "; it takes both to judge a model, or neither"
        )
    if "evaluation" not in given:
        return None
    if not callable(given["metric"]):
        raise FactoryError(f"'metric' of {name} must be a function of outputs and y")
    try:
        return Evaluation(pair(given["evaluation"]), given["metric"])
    except DataError as error:
        raise FactoryError(f"'evaluation' of {name}: {error}") from None


def _batches(data: Any, size: Any) -> Batches:
    if isinstance(data, list | tuple) and len(data) == 2 and _all_tensors(data):
        if size is None:
            size = BATCH
        if not isinstance(size, int) or size < 1:
            raise DataError(f"'batch' is {size!r}; it must be a whole number from 1 on")
        rows = pair(data)
        return row_batches(lambda: rows, Reading(size))
    if callable(data) and not isinstance(data, Iterable | type):
        return batches_from_function(partial(_for_pipeline, data, size))
    if size is not None:
        raise DataError("'batch' is for two tensors (x, y); these data come in batches already")
    if isinstance(data, Dataset) and not isinstance(data, IterableDataset):
        raise DataError(
            "a Dataset yields single examples; wrap it: torch.utils.data.DataLoader(dataset, 32)"
        )
    if not isinstance(data, Iterable):
        raise DataError(f"it is {_kind(data)}; give two tensors (x, y), or what yields such pairs")
    if isinstance(data, Iterator):
        raise DataError(
            "an iterator is at its end after one pass; give what can be iterated again, such as a "
            "list or a DataLoader"
        )
    return ready_batches(partial(batches_of, data))


def _for_pipeline(data: Callable[[InputContext], Any], size: Any, context: InputContext) -> Batches:
    return _batches(data(context), size)


def _all_tensors(parts: Iterable[Any]) -> bool:
    return all(isinstance(part, Tensor) for part in parts)


def _kind(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"
