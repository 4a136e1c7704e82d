import socket
import threading

import pytest


@pytest.fixture
def server(tmp_path):
    listener = socket.create_server(("127.0.0.1", 0))

    def answer():
        peer, _ = listener.accept()
        peer.sendall(b"hi")
        peer.close()

    threading.Thread(target=answer, daemon=True).start()
    yield listener.getsockname()
    listener.close()


@pytest.mark.parametrize("turn", range(3))
def test_answer(server, turn):
    with socket.create_connection(server) as client:
        assert client.recv(2) == b"hi"


def test_that_fails():
    assert 1 == 2
