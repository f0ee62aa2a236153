"""When is a server ready? Real sockets, real commands."""

import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from hakmem_lab.base.errors import LabError
from hakmem_lab.run.ready import LOCAL, Ready, parse_ready, split_command


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield server


def port_of(server: socket.socket) -> int:
    return int(server.getsockname()[1])


@pytest.mark.parametrize(
    ("text", "hosts", "port", "shown"),
    [
        ("7001", LOCAL, 7001, "port 7001"),
        (" 7001 ", LOCAL, 7001, "port 7001"),
        (":7001", LOCAL, 7001, "port 7001"),
        ("db.example:80", ("db.example",), 80, "db.example:80"),
        ("127.0.0.2:65535", ("127.0.0.2",), 65535, "127.0.0.2:65535"),
        ("[::1]:1", ("::1",), 1, "::1:1"),
    ],
)
def test_ports(text: str, hosts: tuple[str, ...], port: int, shown: str) -> None:
    ready = parse_ready(text)
    assert (ready.hosts, ready.port, ready.command, str(ready)) == (hosts, port, (), shown)


def test_a_command() -> None:
    ready = parse_ready("redis-cli -p 7001 'a b'")
    assert ready == Ready(command=("redis-cli", "-p", "7001", "a b"))
    assert str(ready) == "redis-cli -p 7001 'a b'"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("0", "a port is a number from 1 to 65535"),
        ("65536", "a port is a number from 1 to 65535"),
        ("", "a command is wanted"),
        ("'half", "No closing quotation"),
    ],
)
def test_what_is_neither(text: str, problem: str) -> None:
    with pytest.raises(LabError, match=problem):
        parse_ready(text)


def test_split_names_the_option() -> None:
    with pytest.raises(LabError, match=r"--load: a command is wanted"):
        split_command("--load", " ")


def test_a_port_that_accepts_is_ready(listening: socket.socket) -> None:
    ready = parse_ready(str(port_of(listening)))
    assert ready.holds({}, 1) and ready.taken()


def test_a_closed_port_is_not(listening: socket.socket) -> None:
    ready = parse_ready(f"127.0.0.1:{port_of(listening)}")
    listening.close()
    assert not ready.holds({}, 1) and not ready.taken()
    assert ready.wait_until_free(0)


def test_a_port_of_the_other_family() -> None:
    """localhost is one of two addresses: servers take either."""
    if not socket.has_ipv6:
        pytest.skip("this Python has no IPv6")
    try:
        server = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    with closing(server):
        assert parse_ready(str(port_of(server))).holds({}, 1)
        assert not parse_ready(f"127.0.0.1:{port_of(server)}").holds({}, 1)


def test_a_bound_port_that_does_not_listen_is_not_ready() -> None:
    with closing(socket.socket()) as bound:
        bound.bind(("127.0.0.1", 0))
        assert not parse_ready(str(port_of(bound))).holds({}, 1)


def test_waiting_until_a_port_is_free(listening: socket.socket) -> None:
    ready = parse_ready(str(port_of(listening)))
    assert not ready.wait_until_free(0.05)
    closer = threading.Timer(0.2, listening.shutdown, [socket.SHUT_RDWR])
    closer.start()
    assert ready.wait_until_free(30)
    closer.join()


def test_a_host_that_does_not_exist_is_not_ready() -> None:
    assert not Ready(("nowhere.invalid",), 80).holds({}, 1)


def test_a_command_that_succeeds_is_ready() -> None:
    assert parse_ready("true").holds({"PATH": "/usr/bin:/bin"}, 5)
    assert not parse_ready("false").holds({"PATH": "/usr/bin:/bin"}, 5)
    look = Ready(command=("/bin/sh", "-c", 'test "$WORD" = yes'))
    assert look.holds({"WORD": "yes"}, 5) and not look.holds({"WORD": "no"}, 5)
    assert not look.taken()  # of a command nothing is known


def test_a_command_that_hangs_is_not_ready() -> None:
    begin = time.monotonic()
    assert not Ready(command=("/bin/sleep", "60")).holds({}, 0.2)
    assert time.monotonic() - begin < 30


def test_a_command_that_cannot_be_started() -> None:
    with pytest.raises(LabError, match=r"--ready: /no/such: No such file or directory"):
        Ready(command=("/no/such",)).holds({}, 1)


def test_what_a_command_prints_is_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    assert Ready(command=(sys.executable, "-c", "print('PONG')")).holds({}, 30)
    assert capfd.readouterr().out == ""
