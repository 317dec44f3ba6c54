"""Graphs as JSON: the wire form, lossless, and GRAPH.json, which people write.

GRAPH.json is the input half of the golden files: `client_graph` (one node per line), `run` (init,
feeds, fetches) and `devices`, which maps letters to devices or jobs to their numbers of tasks.
"""

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracer.model.cluster import DEVICES_LIMIT, LOCALHOST, ClusterSpec, DeviceName, DeviceSpec
from tracer.model.dtypes import dtype_of
from tracer.model.graph import Graph, GraphError, Input, Literal, Node, TensorSpec
from tracer.model.json_text import parse_json, read_text
from tracer.model.literal import literal_of

_NODE_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*\Z")  # TF node_def_util.cc
_NODE_FIELDS = {
    "name": str,
    "op": str,
    "inputs": list,
    "control_inputs": list,
    "requested_device": str,
    "attrs": dict,
}
_RUN_FIELDS = {"init": str, "feeds": dict, "fetches": list}  # each may be null
_FORMS = {str: "a text", list: "a list of texts", dict: "an object"}


@dataclass(frozen=True, slots=True)
class RunSpec:
    """What to run. `names` are fetches and targets in the order of the file."""

    init: str | None
    feeds: Mapping[str, Literal]
    fetches: tuple[str, ...]
    targets: tuple[str, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GraphFile:
    """A GRAPH.json, read. `is_direct`: one task without a cluster, as TF's DirectSession."""

    graph: Graph
    cluster: ClusterSpec
    devices: tuple[DeviceName, ...]
    client_device: DeviceName
    run: RunSpec
    is_direct: bool


def graph_to_json(graph: Graph) -> list[dict[str, Any]]:
    return nodes_to_json(graph.nodes)


def graph_from_json(raw: Iterable[Mapping[str, Any]]) -> Graph:
    return Graph(nodes_from_json(raw))


def nodes_to_json(nodes: Iterable[Node]) -> list[dict[str, Any]]:
    """Everything a node holds; fields at their defaults are left out."""
    return [_node_to_json(node) for node in nodes]


def nodes_from_json(raw: Iterable[Mapping[str, Any]]) -> tuple[Node, ...]:
    return tuple(_node_from_json(item) for item in raw)


def _node_to_json(node: Node) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "name": node.name,
        "op": node.op,
        "inputs": [str(source) for source in node.inputs],
        "control_inputs": list(node.control_inputs),
        "requested_device": node.requested_device,
        "device": node.device,
        "reason": node.reason,
        "attrs": {name: _attr_to_json(value) for name, value in node.attrs.items()},
        "specs": [[spec.dtype, list(spec.shape)] for spec in node.specs],
        "source": node.source,
    }
    return {name: value for name, value in fields.items() if value}


def _attr_to_json(value: Any) -> Any:
    if isinstance(value, Literal):
        data = base64.b64encode(value.data).decode()
        return {"literal": {"dtype": value.dtype, "shape": list(value.shape), "data": data}}
    if isinstance(value, Mapping):
        return {"map": {name: _attr_to_json(item) for name, item in value.items()}}
    if isinstance(value, list | tuple):
        return [_attr_to_json(item) for item in value]
    return value


def _node_from_json(raw: Mapping[str, Any]) -> Node:
    return Node(
        name=raw["name"],
        op=raw["op"],
        inputs=tuple(map(Input.parse, raw.get("inputs", ()))),
        control_inputs=tuple(raw.get("control_inputs", ())),
        requested_device=raw.get("requested_device", ""),
        device=raw.get("device", ""),
        reason=raw.get("reason", ""),
        attrs={name: _attr_from_json(value) for name, value in raw.get("attrs", {}).items()},
        specs=tuple(TensorSpec(dtype, tuple(shape)) for dtype, shape in raw.get("specs", ())),
        source=raw.get("source", ""),
    )


def _attr_from_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_attr_from_json(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    if "map" in value:
        return {name: _attr_from_json(item) for name, item in value["map"].items()}
    literal = value["literal"]
    data = base64.b64decode(literal["data"])
    return Literal(literal["dtype"], tuple(literal["shape"]), data)


def read_graph_file(path: Path) -> GraphFile:
    """Raises GraphError naming the file's fault: the place in it, the rule, what is allowed."""
    text = read_text(path, path.name, GraphError)
    return graph_file_from_json(parse_json(text, path.name, GraphError))


def graph_file_from_json(raw: Any) -> GraphFile:
    """Raises GraphError, as `read_graph_file`; keys that are not read (results) are left alone."""
    for key, form in (("client_graph", list), ("devices", dict), ("run", dict)):
        if not isinstance(raw, dict) or not isinstance(raw.get(key), form):
            kind = "a list of nodes" if form is list else "an object"
            raise GraphError(f"a graph file needs {key!r}, {kind}")
    graph = Graph(_client_node(index, item) for index, item in enumerate(raw["client_graph"]))
    return graph_file_of(graph, raw["devices"], raw["run"])


def graph_file_of(graph: Graph, devices: Mapping[str, Any], run: Mapping[str, Any]) -> GraphFile:
    """A graph with what its file says of `devices` and `run`. Raises GraphError."""
    graph.topological()  # a cycle would wait for itself
    cluster, named = _cluster_of(devices)
    return GraphFile(
        graph=graph,
        cluster=cluster,
        devices=named,
        client_device=_client_device(named),
        run=_run_spec(graph, run),
        is_direct=not cluster.jobs,
    )


def _check_fields(where: str, raw: Mapping[str, Any], forms: Mapping[str, Any]) -> None:
    for name, value in raw.items():
        form = forms.get(name)
        if form and not (isinstance(value, form) and _holds_texts(value)):
            raise GraphError(f"{where}.{name} must be {_FORMS[form]}")


def _holds_texts(value: Any) -> bool:
    return not isinstance(value, list) or all(isinstance(item, str) for item in value)


def _client_node(index: int, raw: Any) -> Node:
    where = f"client_graph[{index}]"
    if not isinstance(raw, dict) or not {"name", "op"} <= raw.keys():
        raise GraphError(f"{where} must be an object with the texts 'name' and 'op'")
    _check_fields(where, raw, _NODE_FIELDS)
    if not _NODE_NAME.match(raw["name"]):
        raise GraphError(
            f"{where}: {raw['name']!r} is no node name; allowed are letters, digits, _./>-"
        )
    if unknown := raw.keys() - _NODE_FIELDS.keys():
        allowed = ", ".join(_NODE_FIELDS)
        raise GraphError(f"{where}: unknown field {min(unknown)!r}; allowed are {allowed}")
    attrs = dict(raw.get("attrs", {}))
    _check_attrs(where, raw["op"], attrs)
    if "const_value" in attrs:
        attrs["value"] = _const_value(raw["name"], attrs)
    return _node_from_json({**raw, "attrs": {}}).with_(attrs=attrs)


def _check_attrs(where: str, op: str, attrs: Mapping[str, Any]) -> None:
    """The attributes that passes and readers take as they are; kernels check their own."""
    if op == "Const" and "const_value" not in attrs:
        raise GraphError(
            f"{where}: a Const needs attrs.const_value: a number, text or list of them"
        )
    if not _are_dims(attrs.get("const_shape")):
        raise GraphError(f"{where}.attrs.const_shape must be a list of numbers such as [0, 3]")
    classes = attrs.get("_class", [])
    if not isinstance(classes, list) or not _holds_texts(classes):
        raise GraphError(f"{where}.attrs._class must be {_FORMS[list]}, such as 'loc:@w'")


def _are_dims(value: Any) -> bool:
    return value is None or (
        isinstance(value, list) and all(type(dim) is int and dim >= 0 for dim in value)
    )


def _const_value(name: str, attrs: dict[str, Any]) -> Literal:
    """Takes the three attributes of a hand-written constant away and gives its literal."""
    value, shape = attrs.pop("const_value"), attrs.pop("const_shape", None)
    try:
        literal = literal_of(attrs.get("dtype", "float32"), value)
    except GraphError as error:
        raise GraphError(f"const_value of node {name!r}: {error}") from None
    if shape is None or tuple(shape) == literal.shape:
        return literal
    if literal.num_elements or 0 not in shape:
        raise GraphError(f"node {name!r}: const_value has shape {list(literal.shape)}, not {shape}")
    return Literal(literal.dtype, tuple(shape), b"")  # JSON cannot write [0, 3]


def _cluster_of(raw: Mapping[str, Any]) -> tuple[ClusterSpec, tuple[DeviceName, ...]]:
    if not raw:
        raise GraphError('\'devices\' is empty; write {"A": "/job:worker/task:0"} or {"worker": 1}')
    if all(isinstance(count, int) for count in raw.values()):
        for job in raw:
            _device_of(job, f"/job:{job}")
        if not any(raw.values()) or min(raw.values()) < 0:
            raise GraphError('\'devices\' counts no task; write for example {"ps": 1, "worker": 2}')
        if sum(raw.values()) > DEVICES_LIMIT:
            raise GraphError(
                f"'devices' counts {sum(raw.values())} tasks; {DEVICES_LIMIT} is the most"
            )
        cluster = ClusterSpec.of_counts(**raw)
        return cluster, tuple(task.device() for task in cluster.tasks())
    specs = [_device_of(letter, text) for letter, text in raw.items()]
    devices = {
        DeviceName(s.job or LOCALHOST, s.task or 0, s.type or "CPU", s.index or 0) for s in specs
    }
    devices |= {  # devices of one type are numbered from 0 without gaps
        DeviceName(d.job, d.task, d.type, index) for d in devices for index in range(d.index)
    }
    devices |= {device.task_name.device() for device in devices}  # every task has its host CPU
    jobs: dict[str, dict[int, str]] = {}
    for device in devices:
        if device.job != LOCALHOST:
            jobs.setdefault(device.job, {})[device.task] = ""
    if jobs and any(device.job == LOCALHOST for device in devices):
        raise GraphError("'devices' names devices with a job and without one; a graph has one form")
    return ClusterSpec(jobs), tuple(sorted(devices))


def _device_of(letter: str, text: Any) -> DeviceSpec:
    if not isinstance(text, str):
        raise GraphError(
            f"devices[{letter!r}] must be a device, such as /job:ps/task:0, or all counts"
        )
    try:
        spec = DeviceSpec.parse(text)
    except ValueError as error:
        raise GraphError(f"devices[{letter!r}]: {error}") from None
    if max(spec.task or 0, spec.index or 0) >= DEVICES_LIMIT:
        raise GraphError(f"devices[{letter!r}]: {text} is numbered {DEVICES_LIMIT} or above")
    return spec


def _client_device(devices: tuple[DeviceName, ...]) -> DeviceName:
    """CPU:0 of the master: chief:0, else worker:0, else the first task."""
    hosts = [device for device in devices if (device.type, device.index) == ("CPU", 0)]
    order = {"chief": 0, "worker": 1}
    return min(hosts, key=lambda device: (order.get(device.job, 2), device))


def _run_spec(graph: Graph, raw: Mapping[str, Any]) -> RunSpec:
    _check_fields("run", {k: v for k, v in raw.items() if v is not None}, _RUN_FIELDS)
    names = tuple(dict.fromkeys(raw.get("fetches") or ()))
    feeds = raw.get("feeds") or {}
    return RunSpec(
        init=raw.get("init"),
        feeds={_tensor(name): _feed(graph, name, value) for name, value in feeds.items()},
        fetches=tuple(name for name in names if ":" in name),
        targets=tuple(name for name in names if ":" not in name),
        names=names,
    )


def _tensor(name: str) -> str:
    return name if ":" in name else f"{name}:0"


def _feed(graph: Graph, name: str, value: Any) -> Literal:
    output = Input.parse(_tensor(name))
    if output.node not in graph:
        raise GraphError(f"run.feeds: {name!r} names no node of client_graph")
    try:
        return literal_of(dtype_of(graph, output), value)
    except GraphError as error:
        raise GraphError(f"run.feeds[{name!r}]: {error}") from None
