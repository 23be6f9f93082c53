"""What is asked of an agent, and what is refused before that.

Plan: a request that is too long is refused as such, also by an agent that can't say so, and a wrong token is always told; a text is no list of texts; an address that is none is
refused with what to write; no end waits for longer than its lease lasts; who asks for a release at its exit and can't have it is told once.
"""

import signal
import socket
import subprocess
import threading
import time
import unittest

from harness import PROGRAM, FakeAgent, WithAgent, tenure

TOLD = {"id": "1", "key": "k", "fence": 1, "good_for_ms": 60_000, "beat_in_ms": 20_000}


class TooLong(WithAgent):
    def test_a_request_that_is_too_long_is_refused_as_such(self):
        client = self.client()
        for length in (70_000, 300_000, 3_000_000):
            for ask in (
                lambda: client.lease("k", about={"text": "x" * length}),
                lambda: client.worker("f", units=["x" * 1000 + str(n) for n in range(length // 1000)]),
            ):
                with self.subTest(length), self.assertRaises(tenure.Refused) as refused:
                    ask()
                self.assertEqual((refused.exception.code, refused.exception.status), ("too_large", 413))
        # The connection by which a lease is kept is of use after that.
        unit = None
        worker = client.worker("g", units=["u"])
        while unit is None:
            unit = worker.next(1)
        with self.assertRaises(tenure.Refused) as refused:
            unit.checkpoint("x" * 300_000)
        self.assertEqual(refused.exception.code, "too_large")
        self.assertTrue(unit.done())

    def test_also_by_an_agent_that_can_not_say_so(self):
        with socket.create_server(("127.0.0.1", 0)) as full:

            def close_each():
                while True:
                    try:
                        connected, _ = full.accept()
                    except OSError:
                        return
                    connected.recv(1)
                    connected.close()

            threading.Thread(target=close_each, daemon=True).start()
            client = tenure.Client(f"http://127.0.0.1:{full.getsockname()[1]}")
            with self.assertRaises(tenure.Refused) as refused:
                client.lease("k", about={"text": "x" * 300_000})
            self.assertEqual(refused.exception.code, "too_large")
            # A short one may be answered at another time.
            with self.assertRaises(tenure.Unreachable):
                client.lease("k")


class WrongToken(WithAgent):
    def start(self):
        token = self.path / "token"
        token.write_text("full-token-0123456789")
        command = [PROGRAM, "serve", "--listen", "127.0.0.1:0", "--token-file", str(token), "--ttl", self.ttl]
        self.agent = subprocess.Popen(command, env=self.environment, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.agent.stderr.close)
        self.addCleanup(self.agent.wait)
        self.addCleanup(self.agent.kill)
        self.address = "http://127.0.0.1:" + self.agent.stderr.readline().strip().rpartition(":")[2]

    def test_a_wrong_token_is_always_told(self):
        client = self.client(token="another-token-0123456789")
        for n in range(300):
            with self.assertRaises(tenure.Refused) as refused:
                client.lease("k", about={"n": "x" * (n % 7) * 1000})
            self.assertEqual(refused.exception.code, "wrong_token")


class Cut(unittest.TestCase):
    def test_an_answer_that_came_before_all_was_sent_is_heard(self):
        """Which the agent may do with whatever it refuses by the head alone."""
        answer = b'{"code": "wrong_token", "message": "no"}'
        head = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: %d\r\n\r\n" % len(answer)
        with socket.create_server(("127.0.0.1", 0)) as agent:

            def refuse():
                connected, _ = agent.accept()
                with connected:
                    connected.recv(100)
                    connected.sendall(head + answer)

            threading.Thread(target=refuse, daemon=True).start()
            with self.assertRaises(tenure.Refused) as refused:
                tenure.Client(f"http://127.0.0.1:{agent.getsockname()[1]}").lease("k", about={"text": "x" * 20_000_000})
        self.assertEqual(refused.exception.code, "wrong_token")


class Texts(unittest.TestCase):
    def test_a_text_is_no_list_of_texts(self):
        client, other = tenure.Client("http://127.0.0.1:1"), tenure.AsyncClient("http://127.0.0.1:1")
        for ask in (
            lambda: client.worker("f", units="abc"),
            lambda: client.worker("f", labels="gpu"),
            lambda: client.worker("f", needs={"x": "gpu"}),
            lambda: client.work("f", print, units="abc"),
            lambda: other.work("f", print, units="abc").send(None),
            lambda: tenure.hold("k", program="tenure"),
            lambda: tenure.async_hold("k", program="tenure"),
        ):
            with self.assertRaises(TypeError) as refused:
                ask()
            self.assertIn("list of texts", str(refused.exception))

    def test_an_address_that_is_none_is_refused_with_what_to_write(self):
        for address, remedy in (
            ("agent/agent.sock", "unix:agent/agent.sock"),
            ("/run/agent.sock", "unix:/run/agent.sock"),
            ("http://127.0.0.1:7070/foo", "http://127.0.0.1:PORT"),
            ("https://agent:7070/?x=1", "https://HOST:PORT"),
            ("http://127.0.0.1:0", "http://127.0.0.1:PORT"),
            ("http://127.0.0.1:70700", "http://127.0.0.1:PORT"),
            ("127.0.0.1:port", "http://127.0.0.1:PORT"),
        ):
            for made in (tenure.Client, tenure.AsyncClient):
                with self.subTest(address), self.assertRaises(ValueError) as refused:
                    made(address)
                self.assertIn(address, str(refused.exception))
                self.assertIn(remedy, str(refused.exception))
        for address in ("http://127.0.0.1:7070/", "127.0.0.1:7070", "https://agent"):
            tenure.Client(address)


class Ends(WithAgent):
    def test_no_end_waits_for_longer_than_its_lease_lasts(self):
        client = self.client()
        lease, other = client.lease("k"), client.lease("l")
        self.agent.send_signal(signal.SIGSTOP)
        self.addCleanup(self.agent.send_signal, signal.SIGCONT)
        begin = time.monotonic()
        self.assertFalse(lease.release())
        # The ttl is 3 s.
        self.assertLess(time.monotonic() - begin, 7)
        self.assertTrue(other.wait_lost(30))
        begin = time.monotonic()
        self.assertFalse(other.release())
        self.assertLess(time.monotonic() - begin, 5)


class OnExit(unittest.TestCase):
    def test_who_can_not_have_a_release_at_its_exit_is_told_once(self):
        def answer(method, path, body):
            if method == "DELETE":
                return {"released": True}
            return 201, {**TOLD, "on_exit": "lapse"}

        with FakeAgent(answer) as agent:
            client = tenure.Client(agent.address, on_exit="release")
            with self.assertLogs("tenure", "WARNING") as logged:
                for _ in range(2):
                    client.lease("k").release()
            self.assertEqual(len(logged.output), 1)
            self.assertIn("Unix socket", logged.output[0])


if __name__ == "__main__":
    unittest.main()
