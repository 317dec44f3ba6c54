import os
import socket
import tempfile
from pathlib import Path

import pytest

from tests.rpc.fake_worker import numbered
from tests.rpc.tasks import pull, received, start_task
from tracer.model.cluster import TaskName
from tracer.rpc.addresses import Address, AddressError, listening_pid
from tracer.rpc.local_socket import user_folder
from tracer.rpc.transport import Transport
from tracer.rpc.worker_stub import RemoteWorker


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("127.0.0.1:1", "127.0.0.1", 1), ("[::1]:0", "::1", 0), ("host_a.b:65535", "host_a.b", 65535)],
)
def test_host_and_port_are_read_and_written(text: str, host: str, port: int) -> None:
    address = Address.parse(text)
    assert (address.host, address.port) == (host, port)
    assert str(address) == text


@pytest.mark.parametrize("text", ["", "host", "host:", "host:x", "host:65536", "host:-1"])
def test_an_address_without_a_port_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(AddressError, match=r"127\.0\.0\.1:2222"):
        Address.parse(text)


def test_bare_ipv6_is_refused_with_the_brackets_it_needs() -> None:
    with pytest.raises(AddressError, match=r"write \[::1\]:2222"):
        Address.parse("::1:2222")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback_is_known_by_what_it_is(host: str) -> None:
    assert Address(host, 1).is_loopback


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "my-host"])
def test_what_others_can_reach_is_not_served_without_a_secret(host: str) -> None:
    with pytest.raises(AddressError, match="no secret"):
        start_task("ps:0", address=str(Address(host, 0)))


def test_a_task_on_ipv6_says_its_address_in_brackets(sockets: Path | None) -> None:
    task = start_task("ps:0", sockets, address="[::1]:0")
    try:
        assert task.server.address.startswith("[::1]:")
        assert task.stub_of(task).get_status().pid == 7
        task.worker.table(1).send("k", numbered(2))
        assert received(pull(task.stub_of(task), "k")).error is None
    finally:
        task.stop()


def test_a_taken_port_is_refused_with_the_process_that_has_it() -> None:
    first = start_task("ps:0")
    try:
        with pytest.raises(AddressError, match=f"in use by process {os.getpid()}"):
            start_task("ps:0", address=first.server.address)
        assert first.stub_of(first).get_status().pid == 7
    finally:
        first.stop()


def test_a_local_socket_stands_for_loopback_addresses_only(tmp_path: Path) -> None:
    with pytest.raises(AddressError, match=r"0\.0\.0\.0:0 is no loopback address; use --transport"):
        start_task("ps:0", tmp_path, address="0.0.0.0:0", secret="s")
    here = Transport("worker:0", sockets=tmp_path)
    far = RemoteWorker(here, TaskName("ps", 0), "192.0.2.1:2222")
    try:
        error = pull(far, "k").error()
        assert error.code == "FAILED_PRECONDITION"
        assert "ps:0 at 192.0.2.1:2222: --transport local joins tasks of one host" in error.message
    finally:
        here.close()


def test_a_folder_of_sockets_that_others_can_enter_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = user_folder()
    assert (folder.stat().st_mode & 0o777, user_folder()) == (0o700, folder)
    folder.chmod(0o755)
    with pytest.raises(AddressError, match="nobody else can enter"):
        user_folder()


def test_a_socket_that_a_killed_task_left_is_taken_over() -> None:
    with tempfile.TemporaryDirectory() as folder:
        first = start_task("ps:0", Path(folder))
        address = first.server.address
        assert [entry.name for entry in Path(folder).iterdir()] == [address]
        first.stop()
        assert not list(Path(folder).iterdir())
        leftover = socket.socket(socket.AF_UNIX)
        leftover.bind(str(Path(folder) / address))
        leftover.close()
        again = start_task("ps:0", Path(folder), address=address)
        try:
            again.worker.table(1).send("k", numbered(2))
            assert received(pull(again.stub_of(again), "k")).error is None
        finally:
            again.stop()


def test_a_path_too_long_for_a_socket_is_refused_with_the_way_out(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    with pytest.raises(AddressError, match="set TMPDIR"):
        start_task("ps:0", deep)


def test_a_foreign_address_cannot_be_bound() -> None:
    with pytest.raises(AddressError, match="no address of this machine"):
        start_task("ps:0", address="192.0.2.1:0", secret="s")


def test_the_listening_process_is_found_by_its_port() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        assert listening_pid(listener.getsockname()[1]) is None
        listener.listen()
        assert listening_pid(listener.getsockname()[1]) == os.getpid()


def test_proxies_of_the_environment_are_ignored(
    monkeypatch: pytest.MonkeyPatch, sockets: Path | None
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    task = start_task("ps:0", sockets)
    try:
        assert task.stub_of(task).get_status().pid == 7
        task.worker.table(1).send("k", numbered(2))
        assert received(pull(task.stub_of(task), "k")).error is None
        through_proxy = Transport("worker:0", allow_proxy=True)
        assert dict(through_proxy._options)["grpc.enable_http_proxy"] == 1
    finally:
        task.stop()
