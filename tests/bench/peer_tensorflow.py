"""TensorFlow's side of the step benchmarks: a ps, two workers, a client, `session.run` by gRPC.

Variants are those of peer_vizdist; a traced step is one with FULL_TRACE, whose statistics the
client gets. Runs in an environment of its own that has tensorflow-cpu (2.21 was measured).
"""

import functools
import itertools
import json
import os
import socket
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import psutil
import tensorflow as tf
from blocks import at_once, drive, serve_blocks

v1 = tf.compat.v1
tf.get_logger().setLevel("CRITICAL")  # it says of each optimizer of its version 1 that it is old
SIZES, BATCH = (64, 32, 10), 64
SYNC = "2-sync"
PULLS = {"1KB": 1 << 10, "64MB": 64 << 20}
CONFIG = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=2)


def serve(spec, job, index):
    tf.distribute.Server(tf.train.ClusterSpec(spec), job_name=job, task_index=index, config=CONFIG)
    print("up", flush=True)
    sys.stdin.read()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_servers(spec):
    started = []
    for job, addresses in spec.items():
        for index in range(len(addresses)):
            command = [sys.executable, __file__, "serve", json.dumps(spec), job, str(index)]
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            process.stdout.readline()
            started.append(process)
    return started


def devices_of(spec, index):
    """Variables go to the ps; how far a worker has come is its own, which TF's setter forgets."""
    worker = f"/job:worker/task:{index}"
    setter = v1.train.replica_device_setter(
        cluster=tf.train.ClusterSpec(spec), worker_device=worker
    )
    return lambda op: worker if "sync_rep_local_step" in op.name else setter(op)


def mlp():
    """Placeholders of the batch, and the loss."""
    random = np.random.RandomState(0)
    x = v1.placeholder(tf.float32, [BATCH, SIZES[0]])
    y = v1.placeholder(tf.int32, [BATCH])
    hidden = x
    for layer, (rows, columns) in enumerate(itertools.pairwise(SIZES)):
        first = (random.randn(rows, columns) * 0.1).astype("float32")
        weights = v1.get_variable(f"w{layer}", initializer=first, use_resource=False)
        bias = v1.get_variable(
            f"b{layer}", initializer=np.zeros(columns, "float32"), use_resource=False
        )
        hidden = tf.nn.bias_add(tf.matmul(hidden, weights), bias)
        hidden = tf.nn.relu(hidden) if layer == 0 else hidden
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=hidden)
    return [x, y], tf.reduce_mean(losses)


def batch():
    random = np.random.RandomState(1)
    features = random.rand(BATCH, SIZES[0]).astype("float32")
    return features, random.randint(0, SIZES[2], BATCH).astype("int32")


def sync_steps(spec):
    """The steps of two workers whose mean gradients make one update (SyncReplicasOptimizer)."""
    steps = []
    for index, address in enumerate(spec["worker"]):
        graph = tf.Graph()
        with graph.as_default(), v1.device(devices_of(spec, index)):
            step = v1.train.get_or_create_global_step()
            feeds, loss = mlp()
            sgd = v1.train.GradientDescentOptimizer(0.01)
            optimizer = v1.train.SyncReplicasOptimizer(sgd, len(spec["worker"]))
            train = optimizer.minimize(loss, global_step=step)
            init = v1.global_variables_initializer()
            runner, tokens = optimizer.get_chief_queue_runner(), optimizer.get_init_tokens_op()
        session = v1.Session(f"grpc://{address}", graph=graph, config=CONFIG)
        if index == 0:
            session.run(init)
            session.run(optimizer.chief_init_op)
            runner.create_threads(session, daemon=True, start=True)
            session.run(tokens)
        else:
            session.run(optimizer.local_step_init_op)
        call = session.make_callable([loss, train], feed_list=feeds)
        steps.append(functools.partial(call, *batch()))
    return at_once(steps)


def training_step(spec, index):
    """The MLP step of one worker: a callable that runs it, traced or not."""
    graph = tf.Graph()
    with graph.as_default(), v1.device(devices_of(spec, index)):
        step = v1.train.get_or_create_global_step()
        feeds, loss = mlp()
        train = v1.train.GradientDescentOptimizer(0.01).minimize(loss, global_step=step)
        init = v1.global_variables_initializer()
    session = v1.Session(f"grpc://{spec['worker'][index]}", graph=graph, config=CONFIG)
    if index == 0:
        session.run(init)
    traced = session.make_callable([loss, train], feed_list=feeds, accept_options=True)
    run = session.make_callable([loss, train], feed_list=feeds)
    features, labels = batch()
    options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)

    def step(is_traced):
        if is_traced:
            traced(features, labels, options=options, run_metadata=v1.RunMetadata())
        else:
            run(features, labels)

    return step


def pull_of(num_bytes, spec):
    """A step in which worker:0 reads a float32 variable of the ps, and nothing is fetched."""
    graph = tf.Graph()
    with graph.as_default():
        with v1.device("/job:ps/task:0"):
            variable = v1.get_variable(
                f"v{num_bytes}",
                shape=[num_bytes // 4],
                initializer=v1.zeros_initializer(),
                use_resource=False,
            )
        with v1.device("/job:worker/task:0"):
            pulled = tf.identity(variable, name="pulled")
        init = variable.initializer
    session = v1.Session(f"grpc://{spec['worker'][0]}", graph=graph, config=CONFIG)
    session.run(init)
    return session.make_callable(pulled.op)


def cpu_seconds(servers):
    times = [psutil.Process(p.pid).cpu_times() for p in servers] + [psutil.Process().cpu_times()]
    return sum(t.user + t.system for t in times)


def main():
    spec = {
        "ps": [f"127.0.0.1:{free_port()}"],
        "worker": [f"127.0.0.1:{free_port()}" for _ in range(2)],
    }
    servers = start_servers(spec)
    steps = [training_step(spec, index) for index in range(2)]
    alone = {name: pull_of(size, spec) for name, size in PULLS.items()}

    def block(variant, seconds):
        if variant == SYNC and variant not in alone:
            alone[variant] = sync_steps(spec)
            drive([alone[variant]], seconds, time.process_time)
        workers, _, traced = variant.partition("-")
        if variant in alone:
            work = [alone[variant]]
        else:
            work = [functools.partial(step, bool(traced)) for step in steps[: int(workers)]]
        return drive(work, seconds, functools.partial(cpu_seconds, servers))

    for _ in range(50):
        for step in steps:
            step(False)
        alone["1KB"]()
    for _ in range(5):
        alone["64MB"]()
    serve_blocks(block)
    for server in servers:
        server.kill()


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(json.loads(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
    else:
        main()
