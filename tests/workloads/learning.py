"""A workload's captured step, run node by node on one device, as far as it is asked to learn."""

from itertools import islice

from tests.ops.graph_runner import GraphRunner
from tracer.capture_graph.randomness import step_seed
from tracer.workloads.workload import Workload


class Learner:
    def __init__(self, workload: Workload, seed: int) -> None:
        self._workload = workload
        self._seed = seed
        self.step = workload.capture(seed)
        self.runner = GraphRunner(self.step.graph)
        self.runner.run(self.step.init)
        self.losses: list[float] = []

    def learn(self, steps: int) -> None:
        """The first steps of a run with one worker."""
        batches = islice(self._workload.batches(self._seed, 0, 1), steps)
        for number, batch in enumerate(batches, 1):
            values = self.step.feed(batch, step_seed(self._seed, 0, number))
            feeds = dict(zip(self.step.feeds, values, strict=True))
            loss, _ = self.runner.run(self.step.loss, self.step.train, feeds=feeds)
            assert loss is not None
            self.losses.append(loss.item())

    @property
    def metric(self) -> float:
        """On held-out examples, in eval mode."""
        evaluation = self._workload.evaluation()
        assert evaluation is not None
        values = self.step.evaluation_feed(evaluation.batch)
        feeds = dict(zip(self.step.evaluation_feeds, values, strict=True))
        (metric,) = self.runner.run(self.step.metric, feeds=feeds)
        assert metric is not None
        return metric.item()
