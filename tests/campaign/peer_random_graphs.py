"""TensorFlow's side of random_tensorflow_graphs: draws graphs, runs them, writes what it did.

Each file has the form of the golden ones: the client's graph, what ran, the values or the error,
and the partitions; `again` holds those of further sessions, as TensorFlow may cut one graph in
several ways. Runs in an environment of its own that has tensorflow-cpu (2.21 was tried).

    .venv-tensorflow/bin/python tests/campaign/peer_random_graphs.py FOLDER FIRST COUNT
"""

import json
import os
import random
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import tensorflow as tf  # type: ignore[import-untyped]

v1 = tf.compat.v1
v1.disable_v2_behavior()
v1.disable_control_flow_v2()

NUMBERS = ("float32", "float64", "int32", "int64", "int16", "int8", "uint8", "float16")
SIGNED = tuple(name for name in NUMBERS if not name.startswith("u"))
SHAPE = (2,)  #: of every number, so that whatever comes together fits
DEEPEST = 3
SESSIONS = 3
CLUSTER = {
    "A": "/job:ps/task:0/device:CPU:0",
    "B": "/job:worker/task:0/device:CPU:0",
    "C": "/job:worker/task:0/device:CPU:1",
    "D": "/job:worker/task:1/device:CPU:0",
}
ALONE = {"A": "/device:CPU:0", "B": "/device:CPU:1", "C": "/device:CPU:2"}
Tensors = list[Any]


class Drawn:
    """A graph by chance: `values` of its outermost level may be fetched, `feeds` are given."""

    def __init__(self, seed: int, devices: Sequence[str]) -> None:
        self.draw = random.Random(seed)
        self.scope = f"of_{seed}"  # a server keeps variables by name, whoever made them
        self.devices = devices
        self.feeds: dict[str, Any] = {}
        self.inits: Tensors = []
        self.values: Tensors = []
        for _ in range(self.draw.randint(1, 2)):
            self.values.append(self.placeholder())
        self.values += [self.constant(), self.constant()]
        self.values = self.block(self.values, 0, self.draw.randint(3, 9))

    # ---- where and which ----

    def somewhere(self) -> AbstractContextManager[Any]:
        device = self.draw.choice([*self.devices, ""])
        return tf.device(device) if device else nullcontext()

    def one(self, values: Tensors, dtypes: Sequence[str] = NUMBERS) -> Any:
        """A value of one of these dtypes, made from another where there is none."""
        fitting = [value for value in values if value.dtype.base_dtype.name in dtypes]
        if fitting:
            return self.draw.choice(fitting)
        numbers = [value for value in values if value.dtype.base_dtype.name in NUMBERS]
        with self.somewhere():
            return tf.cast(self.draw.choice(numbers), self.draw.choice(dtypes))

    def predicate(self, values: Tensors) -> Any:
        flags = [value for value in values if value.dtype.base_dtype.name == "bool"]
        if flags and self.draw.random() < 0.5:
            return self.draw.choice(flags)
        return self.compared(values)

    # ---- sources ----

    def placeholder(self) -> Any:
        with self.somewhere():
            dtype = self.draw.choice(NUMBERS)
            value = v1.placeholder(dtype, SHAPE)
        self.feeds[value.name] = np.array(self.some_numbers(2), dtype)
        return value

    def some_numbers(self, count: int) -> list[int]:
        return [self.draw.randint(0, 3) for _ in range(count)]

    def constant(self) -> Any:
        """Of few elements, or of more than are copied rather than sent."""
        dtype = self.draw.choice(NUMBERS)
        with self.somewhere():
            if self.draw.random() < 0.7:
                return tf.constant(self.some_numbers(2), dtype)
            many = tf.constant(self.some_numbers(17), dtype)
        with self.somewhere():
            return tf.slice(many, [self.draw.randint(0, 15)], [2])

    def variable(self, values: Tensors) -> Any:
        """Read, or written and read after that; nothing else touches it, so no order is missing."""
        dtype = self.draw.choice(("float32", "int32"))
        with self.somewhere():
            held = v1.get_variable(
                f"{self.scope}_v{len(self.inits)}",
                initializer=tf.constant(self.some_numbers(2), dtype),
                use_resource=self.draw.random() < 0.5,
            )
        self.inits.append(held.initializer)
        if self.draw.random() < 0.5:
            return tf.identity(held.read_value())
        with tf.control_dependencies([held.assign_add(self.one(values, (dtype,))).op]):
            return tf.identity(held.read_value())

    # ---- ops ----

    def block(self, values: Tensors, depth: int, length: int) -> Tensors:
        """What was there and what came of it."""
        makers: list[Callable[[Tensors], Any]] = [
            self.computed, self.computed, self.computed, self.compared, self.waiting,
            self.cast, self.through_a_stack, self.selected, lambda _: self.constant(),
        ]  # fmt: skip
        if depth == 0:
            makers.append(self.variable)
        for _ in range(length):
            if depth < DEEPEST and self.draw.random() < 0.3:
                values = [*values, *self.draw.choice((self.cond, self.loop))(values, depth)]
            else:
                values = [*values, self.draw.choice(makers)(values)]
        return values

    def computed(self, values: Tensors) -> Any:
        first = self.one(values)
        second = self.one(values, (first.dtype.base_dtype.name,))
        with self.somewhere():
            if self.draw.random() < 0.4:
                ops = [tf.identity, tf.square, tf.zeros_like, tf.ones_like]
                signed = first.dtype.base_dtype.name in SIGNED
                return self.draw.choice([*ops, *[tf.negative] * signed])(first)
            if self.draw.random() < 0.2:
                return tf.add_n([first, second, first])
            return self.draw.choice((tf.add, tf.multiply, tf.subtract, tf.maximum))(first, second)

    def compared(self, values: Tensors) -> Any:
        first = self.one(values)
        second = self.one(values, (first.dtype.base_dtype.name,))
        with self.somewhere():
            each = self.draw.choice((tf.less, tf.greater_equal, tf.equal))(first, second)
        with self.somewhere():
            return self.draw.choice((tf.reduce_all, tf.reduce_any))(each)

    def waiting(self, values: Tensors) -> Any:
        before = [self.draw.choice(values) for _ in range(self.draw.randint(1, 2))]
        with self.somewhere(), tf.control_dependencies(before):
            return tf.identity(self.one(values))

    def cast(self, values: Tensors) -> Any:
        with self.somewhere():
            return tf.cast(self.one(values), self.draw.choice(NUMBERS))

    def through_a_stack(self, values: Tensors) -> Any:
        first = self.one(values)
        second = self.one(values, (first.dtype.base_dtype.name,))
        with self.somewhere():
            both = tf.stack([first, second])
        with self.somewhere():
            return self.draw.choice(tf.unstack(both))

    def selected(self, values: Tensors) -> Any:
        first = self.one(values)
        second = self.one(values, (first.dtype.base_dtype.name,))
        flag = self.predicate(values)
        with self.somewhere():
            return tf.where(tf.stack([flag, flag]), first, second)

    # ---- control flow ----

    def cond(self, values: Tensors, depth: int) -> Tensors:
        dtypes = [self.draw.choice(NUMBERS) for _ in range(self.draw.randint(1, 2))]

        def branch() -> Tensors:
            inner = self.block(values, depth + 1, self.draw.randint(0, 3))
            return [self.one(inner[::-1][:4] + inner, (dtype,)) for dtype in dtypes]

        flag = self.predicate(values)
        with self.somewhere():
            return list(tf.cond(flag, branch, branch))

    def loop(self, values: Tensors, depth: int) -> Tensors:
        count = self.draw.randint(0, 3)
        first = [self.one(values) for _ in range(self.draw.randint(1, 2))]

        def goes_on(i: Any, *_: Any) -> Any:
            with self.somewhere():
                return tf.less(i, count)

        def body(i: Any, *own: Any) -> Tensors:
            inner = self.block([*values, *own], depth + 1, self.draw.randint(0, 3))
            following = [self.one(inner, (value.dtype.base_dtype.name,)) for value in own]
            with self.somewhere():
                return [tf.add(i, 1), *following]

        with self.somewhere():
            start = [tf.constant(0), *first]
            turns = self.draw.choice((1, 2, 10))
            return list(tf.while_loop(goes_on, body, start, parallel_iterations=turns))[1:]

    # ---- what is run ----

    def asked(self) -> tuple[list[str], dict[str, Any]]:
        """Some values, and what is given; once in a while a value in the middle is given too."""
        count = min(len(self.values), self.draw.randint(1, 4))
        fetches = [value.name for value in self.draw.sample(self.values, count)]
        if self.draw.random() < 0.2:
            fetches.append(self.draw.choice(self.values).op.name)
        inner = self.draw.choice(self.values)
        if self.draw.random() < 0.2 and inner.name not in fetches:
            size = 2 if inner.shape.rank else 1
            given = np.array(self.some_numbers(size), inner.dtype.base_dtype.as_numpy_dtype)
            self.feeds.setdefault(inner.name, given if inner.shape.rank else given[0])
        return list(dict.fromkeys(fetches)), self.feeds


# ---- as JSON ----


def plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    held = np.asarray(value)
    if held.dtype.kind == "V" or held.dtype.name == "float16":  # bfloat16 is a type of its own
        held = held.astype(np.float32)
    return held.tolist()


def attribute(value: Any) -> Any:
    """What an attribute of a node holds; None for what no file needs."""
    kind = value.WhichOneof("value")
    if kind == "s":
        return value.s.decode("utf-8", "replace")
    if kind == "type":
        return tf.dtypes.as_dtype(value.type).name
    if kind == "shape":
        return None if value.shape.unknown_rank else [dim.size for dim in value.shape.dim]
    if kind == "i":
        return value.i if abs(value.i) < 2**53 else str(value.i)
    if kind == "list":
        texts = [one.decode("utf-8", "replace") for one in value.list.s]
        types = [tf.dtypes.as_dtype(one).name for one in value.list.type]
        return texts or list(value.list.i) or types
    return getattr(value, kind) if kind in ("f", "b") else None


def node_of(node: Any, device: str) -> dict[str, Any]:
    attrs = {name: attribute(node.attr[name]) for name in sorted(node.attr)}
    attrs = {n: value for n, value in attrs.items() if value is not None and n != "_output_shapes"}
    if node.op == "Const":
        held = tf.make_ndarray(node.attr["value"].tensor)
        attrs |= {"const_shape": list(held.shape), "const_value": plain(held)}
    return {
        "name": node.name,
        "op": node.op,
        "inputs": [name for name in node.input if not name.startswith("^")],
        "control_inputs": [name[1:] for name in node.input if name.startswith("^")],
        device: node.device,
        "attrs": attrs,
    }


def partitions_of(metadata: Any) -> dict[str, Any]:
    return {
        next(node.device for node in graph.node if node.device): [
            node_of(node, "device") for node in graph.node
        ]
        for graph in metadata.partition_graphs
        if graph.node
    }


# ---- running ----


def config(devices: int) -> Any:
    """Without the optimizers, which would take most of the graph away; pruned, then placed."""
    found = v1.ConfigProto(
        allow_soft_placement=False, intra_op_parallelism_threads=1, inter_op_parallelism_threads=2
    )
    found.device_count["CPU"] = devices
    found.graph_options.optimizer_options.opt_level = v1.OptimizerOptions.L0
    found.graph_options.rewrite_options.disable_meta_optimizer = True
    found.graph_options.place_pruned_graph = True
    return found


def serve() -> tuple[str, list[Any]]:
    """A ps and two workers in this process, the first of two devices; where clients dial."""
    ports = free_ports(3)
    spec = tf.train.ClusterSpec(
        {"ps": [f"127.0.0.1:{ports[0]}"], "worker": [f"127.0.0.1:{port}" for port in ports[1:]]}
    )
    started = [
        v1.train.Server(spec, job_name=job, task_index=index, config=config(devices))
        for job, index, devices in (("ps", 0, 1), ("worker", 0, 2), ("worker", 1, 1))
    ]
    return started[1].target, started


def free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def run(seed: int, runtime: str, target: str) -> dict[str, Any]:
    devices = CLUSTER if runtime == "grpc" else ALONE
    graph = tf.Graph()
    with graph.as_default():
        drawn = Drawn(seed, list(devices.values()))
        fetches, feeds = drawn.asked()
        init = tf.group(*drawn.inits, name="init").name if drawn.inits else None
    found: dict[str, Any] = {
        "case": f"random_{seed:05}",
        "runtime": runtime,
        "tf_version": tf.__version__,
        "devices": devices,
        "client_graph": [node_of(node, "requested_device") for node in graph.as_graph_def().node],
        "run": {
            "init": init,
            "feeds": {name: plain(value) for name, value in feeds.items()},
            "fetches": fetches,
        },
    }
    options = v1.RunOptions(output_partition_graphs=True, trace_level=v1.RunOptions.FULL_TRACE)
    cuts = []
    for _ in range(SESSIONS):
        metadata = v1.RunMetadata()
        with v1.Session(target, graph=graph, config=config(3)) as session:
            try:
                if init:
                    session.run(init)
                values = session.run(fetches, feeds, options=options, run_metadata=metadata)
            except tf.errors.OpError as error:
                found["error"] = {"error_code": error.error_code, "message": error.message}
                return found
        found["result"] = {
            name: None if value is None else plain(value)
            for name, value in zip(fetches, values, strict=True)
        }
        cuts.append(partitions_of(metadata))
    found["partitions"], *found["again"] = cuts
    return found


def main(folder: str, first: str, count: str) -> None:
    target, servers = serve()
    for seed in range(int(first), int(first) + int(count)):
        for runtime in ("grpc", "direct"):
            found = run(seed, runtime, target if runtime == "grpc" else "")
            path = Path(folder, f"{found['case']}__{runtime}.json")
            path.write_text(json.dumps(found), encoding="utf-8")
    del servers


if __name__ == "__main__":
    main(*sys.argv[1:])
    os._exit(0)  # its servers never end by themselves
