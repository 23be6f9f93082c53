"""What the tests share: the real agent, which TENURE_PROGRAM names, in a directory of its own; one that answers what a test says; children, signals, and
conditions to wait for."""

import contextlib
import http.server
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE / "src"))

import tenure  # noqa: E402

PROGRAM = os.environ["TENURE_PROGRAM"]
LONG = 120.0


def wait_until(what, condition):
    end = time.monotonic() + LONG
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"waited too long for {what}")
        time.sleep(0.005)


def in_a_child(is_fine):
    """The exit status of a forked child; one that stands still is killed."""
    child = os.fork()
    if child == 0:
        signal.alarm(int(LONG))
        status = 1
        try:
            status = 0 if is_fine() else 1
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1]


class Interrupted(BaseException):
    pass


@contextlib.contextmanager
def raised_by_a_signal(interrupt):
    """An alarm is an exception in here; `interrupt` makes one, in a thread."""

    def raises(*_):
        raise Interrupted

    former = signal.signal(signal.SIGALRM, raises)
    try:
        threading.Thread(target=interrupt, daemon=True).start()
        yield
    finally:
        signal.signal(signal.SIGALRM, former)


class WithAgent(unittest.TestCase):
    ttl = "3s"
    #: Further ones of the agent.
    options: "list[str]" = []

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.path = Path(self.directory.name)
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TENURE_")},
            "TENURE_STORE": f"sqlite:{self.path}/leases.db",
            "TENURE_CONFIG": "/dev/null",
            "XDG_STATE_HOME": str(self.path),
        }
        self.socket = self.path / "agent.sock"
        self.address = f"unix:{self.socket}"
        self.start()

    def start(self):
        command = [PROGRAM, "serve", "--listen", self.address, "--ttl", self.ttl, *self.options]
        self.agent = subprocess.Popen(command, env=self.environment, stderr=subprocess.DEVNULL)
        self.addCleanup(self.agent.wait)
        self.addCleanup(self.agent.kill)
        wait_until("the agent", self.listens)

    def listens(self):
        try:
            list(tenure.Client(self.address).list())
            return True
        except tenure.Unreachable:
            return False

    def client(self, **options):
        client = tenure.Client(self.address, **options)
        self.addCleanup(client.close)
        return client

    def tenure(self, *arguments):
        return subprocess.run([PROGRAM, *arguments], env=self.environment, capture_output=True, text=True)

    def clients(self):
        """How many leases the agent's clients have."""
        return self.client()._ask("GET", "/v1/overview")["clients"]

    def state(self, key):
        for row in self.client().list(key):
            if row["key"] == key:
                return row["state"]
        return None


class FakeAgent(http.server.ThreadingHTTPServer):
    """At a loopback address: `answer` makes the body of an answer from the method, the path and the request's body, or the status and the
    body. With None, the connection is closed."""

    daemon_threads = True

    def __init__(self, answer):
        self.answer = answer
        #: Those of each request.
        self.headers = []
        super().__init__(("127.0.0.1", 0), _Answers)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *_):
        """Whoever has asked may be gone."""

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class _Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.headers.append(self.headers)
        told = self.server.answer(self.command, self.path, json.loads(body) if body else None)
        if told is None:
            self.close_connection = True
            return
        status, told = told if isinstance(told, tuple) else (200, told)
        text = b"" if status == 204 else json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_DELETE = do

    def log_message(self, *_):
        pass
