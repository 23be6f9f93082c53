"""What the tests share: the real agent, which TENURE_PROGRAM names, in a directory of its own, and conditions to wait for."""

import os
import subprocess
import sys
import tempfile
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


class WithAgent(unittest.TestCase):
    ttl = "3s"

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
        command = [PROGRAM, "serve", "--listen", self.address, "--ttl", self.ttl]
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

    def state(self, key):
        for row in self.client().list(key):
            if row["key"] == key:
                return row["state"]
        return None
