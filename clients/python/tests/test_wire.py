"""To which connections the client entrusts its token, and which tokens there are.

Plan: an address with TLS has a connection with TLS, or is refused, however it is written. A token as it stands in a file is sent without its newline; what is no token
is refused, and not shown. An agent that closes a connection in the middle of TLS is full, and not absent. In /tmp only an own agent, or root's, is believed.
"""

import http.client
import os
import signal
import socket
import ssl
import tempfile
import threading
import unittest
import unittest.mock

from harness import FakeAgent, tenure, wait_until
from tenure import _wire
from tenure._errors import Closed
from tenure._wire import Wire


class Connections(unittest.TestCase):
    def test_an_address_with_tls_has_a_connection_with_tls_however_it_is_written(self):
        addresses = ["https://agent:7070", "HTTPS://agent:7070", "Https://agent:7070", " https://agent:7070", "\thttps://agent:7070", "ht\ntps://agent:7070"]
        for address in addresses:
            with self.subTest(address):
                try:
                    client = tenure.Client(address, token="0123456789abcdef")
                except ValueError:
                    continue
                self.assertIsInstance(client._wire(None)._connection, http.client.HTTPSConnection)
        self.assertIsInstance(tenure.Client("HTTP://localhost:7070")._wire(None)._connection, http.client.HTTPConnection)
        # Plain text to other hosts is refused in all its spellings, too.
        for address in ["HTTP://agent:7070", " http://agent:7070", "agent:7070", "http://localhost@agent:7070"]:
            with self.subTest(address), self.assertRaises(ValueError) as refused:
                tenure.Client(address, token="0123456789abcdef")
            self.assertIn("plain text", str(refused.exception))

    def test_no_connection_with_tls_is_made_that_believes_nobody(self):
        with self.assertRaises(ValueError):
            Wire("https://agent:7070", "0123456789abcdef", None)


    def test_an_agent_that_closes_a_connection_in_the_middle_of_tls_is_full_and_not_absent(self):
        with socket.create_server(("127.0.0.1", 0)) as full:

            def close_each():
                for _ in range(2):
                    full.accept()[0].close()

            closing = threading.Thread(target=close_each, daemon=True)
            closing.start()
            wire = Wire(f"https://127.0.0.1:{full.getsockname()[1]}", None, 10, ssl.create_default_context())
            with self.assertRaises(Closed):
                wire.ask("GET", "/healthz")
            self.assertTrue(wire._is_there())
            closing.join()

    def test_in_tmp_only_an_own_agent_or_roots_is_believed(self):
        with tempfile.TemporaryDirectory() as place:
            os.chmod(place, 0o777)
            path = os.path.join(place, "agent.sock")
            # Where this runs as root, somebody else listens; and elsewhere this is somebody else for the moment.
            is_root = os.geteuid() == 0
            hears, tells = os.pipe()
            listener = os.fork()
            if listener == 0:
                try:
                    if is_root:
                        os.setuid(65534)
                    with socket.socket(socket.AF_UNIX) as own:
                        own.bind(path)
                        own.listen()
                        os.write(tells, b"1")
                        own.accept()
                finally:
                    os._exit(0)
            self.addCleanup(os.waitpid, listener, 0)
            self.addCleanup(os.kill, listener, signal.SIGKILL)
            self.assertEqual(os.read(hears, 1), b"1")
            uid = os.geteuid() + (0 if is_root else 1)
            with unittest.mock.patch.object(os, "geteuid", return_value=uid):
                with unittest.mock.patch.object(_wire, "_in_tmp", return_value=place):
                    with self.assertRaises(tenure.Unreachable) as refused:
                        Wire(f"unix:{path}", None, 10).ask("GET", "/healthz")
            self.assertIn("could give out leases there", str(refused.exception))


class Threads(unittest.TestCase):
    def test_a_client_that_holds_nothing_has_no_thread(self):
        def beats():
            return [thread for thread in threading.enumerate() if thread.name == "tenure"]

        def answer(method, path, body):
            if method == "DELETE":
                return {"released": True}
            return {"id": "1", "key": "k", "fence": 1, "good_for_ms": 60_000, "beat_in_ms": 20_000, "deadline_boottime_ms": 0}

        before = len(beats())
        with FakeAgent(answer) as agent, unittest.mock.patch("tenure._client._IDLE_NS", 50_000_000):
            client = tenure.Client(agent.address)
            for _ in range(2):
                lease = client.lease("k")
                self.assertEqual(len(beats()), before + 1)
                self.assertTrue(lease.release())
                wait_until("the end of the thread", lambda: len(beats()) == before)


class Tokens(unittest.TestCase):
    TOKEN = "0123456789abcdef"

    def test_a_token_is_sent_without_the_newline_of_its_file(self):
        with FakeAgent(lambda method, path, body: {"leases": []}) as agent:
            for token in [self.TOKEN, f"{self.TOKEN}\n", f" {self.TOKEN}\r\n"]:
                list(tenure.Client(agent.address, token=token).list())
                with unittest.mock.patch.dict(os.environ, {"TENURE_TOKEN": token}):
                    list(tenure.Client(agent.address).list())
            # Whoever names none has none.
            list(tenure.Client(agent.address, token="").list())
            sent = [headers["Authorization"] for headers in agent.headers]
            self.assertEqual(sent, [f"Bearer {self.TOKEN}"] * 6 + [None])

    def test_what_is_no_token_is_refused_and_not_shown(self):
        for wrong in [f"{self.TOKEN}\n{self.TOKEN}", f"{self.TOKEN} x", f"{self.TOKEN}\0", f"{self.TOKEN}ä"]:
            for made in (tenure.Client, tenure.AsyncClient):
                with self.subTest(repr(wrong)):
                    with self.assertRaises(ValueError) as refused:
                        made("http://localhost:1", token=wrong)
                    self.assertIn("token", str(refused.exception))
                    self.assertNotIn(self.TOKEN, str(refused.exception))


if __name__ == "__main__":
    unittest.main()
