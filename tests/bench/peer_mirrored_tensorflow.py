"""TensorFlow's side of the mirrored benchmark: MirroredStrategy on two logical CPUs.

A tf.function a step: the loss, its gradient, their sum, plain SGD. Variants are what sums
gradients (`default`, `reduce_to_one`, `hierarchical_copy`), or `central_storage`:
CentralStorageStrategy. Runs where tensorflow-cpu is.
"""

import itertools
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import tensorflow as tf
from blocks import drive, serve_blocks

SIZES, BATCH, RATE = (64, 32, 10), 64, 0.3
DEVICES = ("CPU:0", "CPU:1")
CROSS_DEVICE_OPS = {
    "default": lambda: None,
    "reduce_to_one": tf.distribute.ReductionToOneDevice,
    "hierarchical_copy": lambda: tf.distribute.HierarchicalCopyAllReduce(1),
}


def share_of(values, context):
    """The rows of a replica."""
    rows, replica = BATCH // len(DEVICES), context.replica_id_in_sync_group
    return tf.constant(values[replica * rows : (replica + 1) * rows])


def strategy_of(variant):
    if variant == "central_storage":
        return tf.distribute.experimental.CentralStorageStrategy(DEVICES, DEVICES[0])
    return tf.distribute.MirroredStrategy(DEVICES, CROSS_DEVICE_OPS[variant]())


def step_of(variant):
    strategy = strategy_of(variant)
    random = np.random.RandomState(0)
    shapes = [shape for pair in itertools.pairwise(SIZES) for shape in (pair, pair[1:])]
    with strategy.scope():
        variables = [tf.Variable((random.randn(*s) * 0.1).astype("float32")) for s in shapes]
    data = random.rand(BATCH, SIZES[0]).astype("float32"), random.randint(0, 10, BATCH).astype("i4")
    fed = [
        strategy.experimental_distribute_values_from_function(
            lambda context, values=values: share_of(values, context)
        )
        for values in data
    ]

    def replica_step(x, y):
        w0, b0, w1, b1 = variables
        with tf.GradientTape() as tape:
            logits = tf.nn.relu(x @ w0 + b0) @ w1 + b1
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
            loss = tf.reduce_sum(losses) / BATCH
        return loss, tape.gradient(loss, variables)

    @tf.function
    def step(x, y):
        losses, gradients = strategy.run(replica_step, (x, y))
        sums = strategy.extended.batch_reduce_to(
            tf.distribute.ReduceOp.SUM, list(zip(gradients, variables, strict=True))
        )
        for variable, total in zip(variables, sums, strict=True):
            strategy.extended.update(variable, lambda v, g: v.assign_sub(RATE * g), (total,))
        return strategy.reduce("SUM", losses, axis=None)

    return lambda: step(*fed)


def main():
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    cpu = tf.config.list_physical_devices("CPU")[0]
    logical = [tf.config.LogicalDeviceConfiguration()] * len(DEVICES)
    tf.config.set_logical_device_configuration(cpu, logical)
    steps = {}

    def block(variant, seconds):
        if variant not in steps:
            steps[variant] = step_of(variant)
            drive([steps[variant]], seconds, time.process_time)
        return drive([steps[variant]], seconds, time.process_time)

    serve_blocks(block)


if __name__ == "__main__":
    main()
