"""Answers that are not an agent's, as of a relay or a proxy between, or one that is broken.

Plan: whoever asks for something gets an `AgentError`. A beat that is answered so is tried again, not without end, and the lease is held once the agent answers as it should;
the thread that keeps leases goes on, for the others of one answer, too. An answer has a longest length, and what it says of its length takes no memory.
"""

import http.client
import socket
import tempfile
import threading
import time
import unittest
import unittest.mock
from concurrent.futures import ThreadPoolExecutor

from harness import FakeAgent, tenure, wait_until
from tenure import _wire

GOOD = {"id": "i1", "key": "k", "fence": 5, "boot": None, "deadline_boottime_ms": 0, "good_for_ms": 3000, "beat_in_ms": 100}
NAN, INF = float("nan"), float("inf")
#: What no request is answered by.
STRANGE = [None, [], {}, 5, "x", (500, "x"), (503, None), (200, [[GOOD]])]
#: A lease as no agent tells of it.
FALSE_LEASES = [{**GOOD, **change} for change in (
    {"fence": None}, {"fence": "5"}, {"id": None}, {"id": 5}, {"key": None}, {"good_for_ms": "5000"}, {"good_for_ms": NAN}, {"good_for_ms": INF},
    {"beat_in_ms": None}, {"beat_in_ms": "1"}, {"beat_in_ms": INF},
)]


def answers(told):
    """The fake agent takes no answer for a closed connection."""
    return told if isinstance(told, tuple) else (200, told)


class Nonsense(unittest.TestCase):
    def test_whoever_asks_for_something_gets_an_agent_error(self):
        for told in STRANGE + FALSE_LEASES:
            with self.subTest(told), FakeAgent(lambda method, path, body: answers(told)) as agent:
                client = tenure.Client(agent.address)
                asked = [
                    lambda: client.lease("k"),
                    lambda: client.campaign("k", wait=0),
                    lambda: client.once_per("k", every=60).begin(),
                    lambda: client.worker("f", units=["u"]),
                    lambda: list(client.list()),
                ]
                for ask in asked:
                    with self.assertRaises(tenure.AgentError) as raised:
                        ask()
                    self.assertIn("answer", str(raised.exception))

    def test_units_that_cannot_be_read_are_an_agent_error(self):
        joined = {"fleet": "f", "holder": "h", "id": "w", "ask_in_ms": 1000}
        for told in [None, [], {"key": "k"}, {**GOOD, "unit": 5, "fields": {}}, {**GOOD, "unit": "u", "fields": None}]:
            answer = lambda method, path, body: answers(told if path.endswith("/next") else joined)
            with self.subTest(told), FakeAgent(answer) as agent:
                with self.assertRaises(tenure.AgentError):
                    tenure.Client(agent.address).worker("f").next()

    def test_a_lease_outlasts_beats_that_cannot_be_read(self):
        false = [None, 5, {}, {"over": 5}, *FALSE_LEASES[2:4], *FALSE_LEASES[5:]]
        wrong = STRANGE + [{"leases": None}, {"leases": []}, {"leases": {}}] + [{"leases": [told]} for told in false]
        died = []
        with unittest.mock.patch.object(threading, "excepthook", died.append):
            # Each waits for the most part.
            with ThreadPoolExecutor(len(wrong)) as pool:
                list(pool.map(self.outlasts, wrong))
        self.assertEqual(died, [])

    def outlasts(self, told):
        beats, is_strange = [0], [True]

        def answer(method, path, body):
            if path != "/v1/beats":
                return (201, GOOD) if method == "POST" else {"released": True}
            beats[0] += 1
            return answers(told) if is_strange[0] else {"leases": [GOOD]}

        with FakeAgent(answer) as agent, tenure.Client(agent.address).lease("k") as lease:
            wait_until("a strange beat", lambda: beats[0] > 0)
            is_strange[0] = False
            before = lease._deadline_ns
            wait_until("another beat", lambda: lease._deadline_ns > before or not lease.held)
            self.assertTrue(lease.held, f"{told}: {lease.reason}")

    def test_one_that_has_no_answer_of_its_own_is_tried_again_and_the_others_are_held(self):
        told, kept = [{"leases": [GOOD, None]}], []

        def answer(method, path, body):
            if path == "/v1/beats":
                kept.append(len(body["ids"]))
                return told[0] if len(body["ids"]) == 2 else {"leases": [GOOD]}
            return (201, {**GOOD, "id": body["key"], "key": body["key"]}) if method == "POST" else {"released": True}

        with FakeAgent(answer) as agent:
            client = tenure.Client(agent.address)
            leases = [client.lease("a"), client.lease("b")]
            began = [lease._deadline_ns for lease in leases]
            wait_until("beats of both", lambda: all(lease._deadline_ns > at for lease, at in zip(leases, began)))
            self.assertTrue(all(lease.held for lease in leases))
            client.close()

    def test_an_agent_that_wants_beats_at_once_is_not_asked_without_end(self):
        for beat_in_ms in (0, -1, -(10**9)):
            beats = [0]

            def answer(method, path, body):
                beats[0] += path == "/v1/beats"
                told = {**GOOD, "beat_in_ms": beat_in_ms}
                return {"leases": [told]} if path == "/v1/beats" else (201, told) if method == "POST" else {"released": True}

            with self.subTest(beat_in_ms), FakeAgent(answer) as agent, tenure.Client(agent.address).lease("k"):
                began = time.monotonic()
                wait_until("beats", lambda: beats[0] >= 20)
                # One in 5 ms at the most, and so many as were under way at first.
                self.assertGreater(time.monotonic() - began, 0.07)

    def test_an_answer_has_a_longest_length(self):
        endless = b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 100_000
        raw = [
            b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n{}",
            b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n" + b"x" * 100_000,
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n" + b"x" * 100_000,
            endless,
            b"HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n" + b"[" * 50_000,
        ]
        with unittest.mock.patch.object(_wire, "_MOST_BYTES", 60_000):
            for said in raw:
                with self.subTest(said[:60]), self.assertRaises(tenure.AgentError) as raised:
                    with tempfile.TemporaryDirectory() as directory:
                        self.ask_once(f"{directory}/s", said)
                self.assertIn("answer", str(raised.exception))

    def ask_once(self, path, said):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()

            def serve():
                stream, _ = listener.accept()
                with stream, stream.makefile("rb") as asked:
                    # All of it: who closes between its head and its body has closed the connection.
                    asked.readline()
                    asked.read(int(http.client.parse_headers(asked)["Content-Length"]))
                    try:
                        stream.sendall(said)
                    except OSError:
                        pass

            server = threading.Thread(target=serve)
            server.start()
            try:
                tenure.Client(f"unix:{path}").lease("k")
            finally:
                server.join()


if __name__ == "__main__":
    unittest.main()
