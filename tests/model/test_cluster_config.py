"""A cluster description is read, or refused by the path of its fault and what to write instead."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracer.model.cluster import ClusterError, ClusterSpec, TaskName, parse_cluster
from tracer.model.cluster_config import loopback_warnings, split_address

TASK = {"type": "worker", "index": 0}
TWO = {"ps": ["h0:2222"], "worker": ["h1:2222", "h2:2222"]}
NAMES = st.sampled_from(["chief", "worker", "ps", "evaluator", "trainer", "gpu_node"])


@st.composite
def clusters(draw: st.DrawFn) -> ClusterSpec:
    jobs = draw(st.dictionaries(NAMES, st.sets(st.integers(0, 99), min_size=1), min_size=1))
    port = iter(range(1, 65536))
    return ClusterSpec({j: {i: f"Host-{j}.x_y:{next(port)}" for i in ix} for j, ix in jobs.items()})


@given(clusters())
def test_a_cluster_is_read_back(cluster: ClusterSpec) -> None:
    read = parse_cluster(json.dumps(cluster.to_json()))
    assert read.cluster == cluster
    assert read.task is None


@given(clusters(), st.data())
def test_tf_config_says_who_we_are(cluster: ClusterSpec, data: st.DataObject) -> None:
    me = data.draw(st.sampled_from(list(cluster.tasks())))
    config = {"cluster": cluster.to_json(), "task": {"type": me.job, "index": me.index}}
    assert parse_cluster(json.dumps(config)).task == me


def test_a_sparse_job_keeps_its_numbers() -> None:
    config = {
        "cluster": {"ps": ["h0:2222"], "worker": {"1": "h2:2222"}},
        "task": {"type": "worker", "index": 1},
    }
    read = parse_cluster(json.dumps(config))
    assert read.task == TaskName("worker", 1)
    assert list(read.cluster.jobs["worker"]) == [1]


@pytest.mark.parametrize(
    ("text", "path", "hint"),
    [
        ("{'cluster':{}}", "line 1, column 2", "double quotes"),
        (json.dumps({"cluster": TWO}), "task: is missing", '"index": 0'),
        (json.dumps({"cluster": TWO, "task": TASK | {"index": 5}}), "task.index", "it has 0, 1"),
        (json.dumps({"cluster": TWO, "task": TASK | {"index": -1}}), "task.index", "it has 0, 1"),
        (json.dumps({"cluster": TWO, "task": TASK | {"index": True}}), "task.index", "a number"),
        (json.dumps({"cluster": TWO, "task": TASK | {"type": "chief"}}), "task.type", "ps, worker"),
        (json.dumps({"cluster": TWO, "task": "worker"}), "task", "an object"),
        (json.dumps({"task": TASK}), "cluster", "missing"),
        (json.dumps({"clusters": TWO, "task": TASK}), "clusters", "did you mean 'cluster'"),
        (
            json.dumps({"cluster": {"ps_hosts": ["h0:1"], "worker_hosts": ["h1:1"]}, "task": TASK}),
            "cluster.ps_hosts",
            "write 'ps'",
        ),
        (json.dumps({"workers": ["h0:1"]}), "workers", "write 'worker'"),
        (json.dumps({"cluster": {"worker": []}, "task": TASK}), "cluster.worker", "has no task"),
        (json.dumps({"cluster": {}, "task": TASK}), "cluster", "is empty"),
        (json.dumps({"cluster": [], "task": TASK}), "cluster", "a list"),
        (json.dumps({"worker": "h1:1"}), "worker", "list of addresses"),
        (json.dumps({"worker": {"one": "h1:1"}}), 'worker["one"]', "number in quotes"),
        (json.dumps({"worker": {"1": "h1:1", "01": "h2:1"}}), 'worker["01"]', "given twice"),
        (json.dumps({"worker": ["h1:1", 7]}), "worker[1]", "a number"),
        (json.dumps({"cluster": {"worker": ["h1:1", "H1:1"]}, "task": TASK}), "worker[1]", "own"),
        (json.dumps({"a b": ["h1:1"]}), "a b", "job name"),
        ("[]", "a list", "such as"),
        ("3", "a number", "such as"),
    ],
)
def test_a_malformed_description_is_refused(text: str, path: str, hint: str) -> None:
    with pytest.raises(ClusterError) as refusal:
        parse_cluster(text)
    assert path in str(refusal.value)
    assert hint in str(refusal.value)


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [
        ("[::1]:2222", "::1", 2222),
        ("[fe80::1]:1", "fe80::1", 1),
        ("my_host:0", "my_host", 0),
        ("UPPER.example.com:65535", "UPPER.example.com", 65535),
        ("10.0.0.1:80", "10.0.0.1", 80),
    ],
)
def test_an_address_is_split(address: str, host: str, port: int) -> None:
    assert split_address(address) == (host, port)


@pytest.mark.parametrize(
    ("address", "hint"),
    [
        ("::1:2222", r"\[::1\]:2222"),
        ("[::zz]:1", r"\[::1\]:2222"),
        ("host", "HOST:PORT"),
        ("host:", "HOST:PORT"),
        ("host:65536", "HOST:PORT"),
        ("host:-1", "HOST:PORT"),
        ("http://host:1", "write 'host:1'"),
        (":2222", "no host name"),
        ("ho st:1", "no host name"),
        ("-host:1", "no host name"),
    ],
)
def test_an_address_that_is_none_is_refused_with_the_rule(address: str, hint: str) -> None:
    with pytest.raises(ClusterError, match=hint):
        parse_cluster(json.dumps({"worker": [address]}))


def test_free_ports_may_repeat() -> None:
    read = parse_cluster(json.dumps({"worker": ["127.0.0.1:0", "127.0.0.1:0"]}))
    assert len(list(read.cluster.tasks())) == 2


def test_loopback_beside_other_hosts_is_worth_a_warning() -> None:
    mixed = ClusterSpec({"worker": {0: "localhost:1", 1: "h1:1", 2: "[::1]:1", 3: "127.0.0.2:9"}})
    warned = [sentence.split()[0] for sentence in loopback_warnings(mixed)]
    assert warned == ["worker:0", "worker:2", "worker:3"]


def test_a_cluster_on_one_host_is_no_reason_to_warn() -> None:
    assert not loopback_warnings(ClusterSpec({"worker": {0: "localhost:1", 1: "[::1]:1"}}))
