"""Leases by the client, from the real agent.

Plan: what is held, told and given back; beats, many leases, loss by revocation, by the agent's death and by its stop; forks; permits, leaders, the list; asyncio
with cancellation and many waits; a client that dies; TLS; where agents are looked for; the README's commands and code.
"""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
from pathlib import Path

from harness import HERE, LONG, PROGRAM, WithAgent, in_a_child, tenure, wait_until
from tenure import _client
from tenure._clock import boottime_ns
from tenure._wire import Wire, default_address


class Leases(WithAgent):
    def test_a_lease_is_held_told_and_given_back(self):
        client = self.client()
        with client.lease("k", about={"who": "me"}) as lease:
            self.assertTrue(lease.held and 0 < lease.remaining < 3)
            lease.check()
            with self.assertRaises(tenure.HeldByAnother) as refused:
                client.lease("k")
            self.assertEqual(refused.exception.fence, lease.fence)
            row = next(iter(client.list("k")))
            self.assertEqual((row["fence"], row["about"]), (lease.fence, {"who": "me"}))
        self.assertFalse(lease.held)
        self.assertEqual((lease.reason, lease.remaining), ("it was released", 0.0))
        with self.assertRaises(tenure.LeaseLost):
            lease.check()
        self.assertFalse(lease.release())
        self.assertEqual(self.state("k"), "vacant")
        with client.lease("k") as later:
            self.assertGreater(later.fence, lease.fence)

    def test_it_is_kept_for_as_long_as_it_is_wanted_and_many_cost_one_request(self):
        client = self.client()
        leases = [client.lease(f"k/{n}") for n in range(50)]
        first = max(lease._deadline_ns for lease in leases)
        wait_until("later deadlines", lambda: min(lease._deadline_ns for lease in leases) > first + 2_000_000_000)
        self.assertTrue(all(lease.held for lease in leases))
        client.close()
        self.assertFalse(any(lease.held for lease in leases))
        self.assertEqual({row["state"] for row in self.client().list("k/")}, {"vacant"})

    def test_who_waits_gets_it(self):
        client = self.client()
        for for_ever in (None, float("inf")):
            first = client.lease("k", wait=LONG)
            had = []
            waits = threading.Thread(target=lambda: had.append(client.lease("k", wait=for_ever)))
            waits.start()
            first.release()
            waits.join()
            self.assertTrue(had[0].held and had[0].fence > first.fence)
            had[0].release()

    def test_a_withdrawn_lease_is_lost_with_its_reason(self):
        lease = self.client().lease("k")
        self.assertEqual(self.tenure("revoke", "k", "--yes").returncode, 0)
        self.assertTrue(lease.wait_lost(LONG))
        wait_until("its reason", lambda: lease.reason is not None)
        self.assertIn("withdrawn", lease.reason)

    def test_it_is_not_held_past_its_deadline_when_the_agent_is_stopped_or_killed(self):
        for number in (signal.SIGSTOP, signal.SIGKILL):
            lease = self.client().lease(f"k{int(number)}")
            self.agent.send_signal(number)
            self.assertTrue(lease.wait_lost(LONG))
            # Whatever the thread in the background does.
            self.assertGreaterEqual(boottime_ns(), lease._deadline_ns)
            self.assertEqual(lease.remaining, 0.0)
            self.agent.send_signal(signal.SIGCONT)
        self.agent.wait()
        self.start()
        with self.client().lease("k9", wait=LONG) as again:
            self.assertTrue(again.held)

    def test_a_new_agent_says_that_it_knows_nothing_of_old_leases(self):
        lease = self.client().lease("k")
        self.agent.kill()
        self.agent.wait()
        self.start()
        self.assertTrue(lease.wait_lost(LONG))

    def test_an_agent_that_is_told_to_end_is_believed_until_the_deadline(self):
        lease = self.client().lease("k")
        self.agent.terminate()
        self.agent.wait(LONG)
        # It has waited for that.
        self.assertGreaterEqual(boottime_ns(), lease._deadline_ns)
        self.assertFalse(lease.held)

    def test_a_forked_child_holds_nothing_and_gives_nothing_back(self):
        client = self.client()
        lease = client.lease("k")
        self.assertEqual(in_a_child(lambda: not lease.held and not lease.release() and self.can_lease(client)), 0)
        self.assertTrue(lease.held)
        self.assertEqual(self.state("k"), "held")

    def test_a_child_that_is_forked_while_the_client_is_busy_can_use_it(self):
        client = self.client()
        with client.lease("k"), client._lock:
            self.assertEqual(in_a_child(lambda: self.can_lease(client)), 0)

    def can_lease(self, client):
        with client.lease("child") as own:
            return own.held

    def test_permits_leaders_and_the_longest_time(self):
        client = self.client()
        with client.semaphore("s", 2), client.semaphore("s", 2):
            with self.assertRaises(tenure.HeldByAnother):
                client.semaphore("s", 2)
        with client.shared("rw"):
            with self.assertRaises(tenure.HeldByAnother):
                client.exclusive("rw")
        self.assertIsNone(client.leader("a/b"))
        for term in client.leaderships("a/b", labels={"url": "here"}):
            self.assertEqual(client.leader("a/b")["about"], {"url": "here"})
            self.assertTrue(term.held)
            break
        wait_until("the resignation", lambda: client.leader("a/b") is None)
        short = client.lease("short", at_most=0.3)
        self.assertTrue(short.wait_lost(LONG))

    def test_bad_input_is_refused_with_what_to_do(self):
        with self.assertRaises(tenure.Refused) as refused:
            self.client().lease("session/x")
        self.assertIn("session/", str(refused.exception))
        with self.assertRaises(ValueError):
            tenure.Client(self.address, on_exit="never")
        with self.assertRaises(ValueError):
            tenure.Client("ftp://example.org")
        with self.assertRaises(ValueError) as plain:
            tenure.Client("http://example.org:7070", token="0123456789abcdef")
        self.assertIn("plain text", str(plain.exception))
        for address, ca_file in ((self.address, "x"), ("https://localhost:1", str(self.path / "none"))):
            with self.assertRaises(ValueError) as refused:
                tenure.Client(address, ca_file=ca_file)
            self.assertIn("ca_file", str(refused.exception))
        wishes = [
            lambda wait: self.client().lease("k", wait=wait),
            lambda wait: self.client().semaphore("k", 2, wait=wait),
            lambda wait: tenure.AsyncClient(self.address).lease("k", wait=wait),
            lambda wait: tenure.hold("k", program=["no-such-program"], wait=wait),
        ]
        for wish in wishes:
            for wait in (-1, -0.5, float("nan")):
                with self.assertRaises(ValueError) as refused:
                    wish(wait)
                self.assertIn("None to wait for ever", str(refused.exception))
        with self.assertRaises(tenure.Unreachable) as unreachable:
            tenure.Client(f"unix:{self.path}/nobody").lease("k")
        self.assertIn("tenure serve", str(unreachable.exception))

    def test_a_client_that_says_that_it_works_alone_gives_way_when_it_is_killed(self):
        program = (
            "import sys, time, tenure\n"
            f"lease = tenure.Client({self.address!r}, on_exit='release').lease('k')\n"
            "print(lease.fence, flush=True)\ntime.sleep(600)\n"
        )
        environment = {**os.environ, "PYTHONPATH": str(HERE / "src")}
        with subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE) as process:
            fence = int(process.stdout.readline())
            process.kill()
        with self.client().lease("k", wait=LONG) as lease:
            self.assertGreater(lease.fence, fence)

    def test_leaderships_go_on_when_the_agent_was_started_anew(self):
        client, terms = self.client(), []

        def leads():
            for term in client.leaderships("e", ttl=2):
                terms.append(term)
                wait_until("the loss", lambda: not term.held or len(terms) > 1)
                if len(terms) > 1:
                    return

        thread = threading.Thread(target=leads)
        thread.start()
        wait_until("the first term", lambda: len(terms) == 1)
        self.agent.kill()
        self.agent.wait()
        wait_until("its end", lambda: not terms[0].held)
        self.start()
        wait_until("the second term", lambda: len(terms) == 2)
        thread.join()
        self.assertGreater(terms[1].fence, terms[0].fence)

        async def main():
            async with tenure.AsyncClient(self.address) as other:
                fences = []
                async for term in other.leaderships("a", ttl=2):
                    fences.append(term.fence)
                    if len(fences) == 2:
                        return
                    self.agent.kill()
                    self.agent.wait()
                    asyncio.get_running_loop().call_later(0.5, self.start)

        asyncio.run(asyncio.wait_for(main(), LONG))

    def test_an_agent_that_stands_still_is_not_waited_for_without_end(self):
        client = self.client()
        with unittest.mock.patch("tenure._client._PATIENCE", 0.5):
            self.agent.send_signal(signal.SIGSTOP)
            for wait in (0, 1):
                begin = time.monotonic()
                with self.assertRaises(tenure.Unreachable):
                    client.lease("k", wait=wait)
                self.assertLess(time.monotonic() - begin, 30)
        self.agent.send_signal(signal.SIGCONT)


class Asyncio(WithAgent):
    def test_leases_leaders_and_the_list(self):
        async def main():
            async with tenure.AsyncClient(self.address) as client:
                async with client.lease("k") as lease:
                    self.assertTrue(lease.held)
                    self.assertEqual([row["key"] for row in await client.list("k")], ["k"])
                self.assertFalse(lease.held)
                async for term in client.leaderships("l"):
                    self.assertEqual((await client.leader("l"))["fence"], term.fence)
                    break
                await (await client.semaphore("s", 1))._released_for_test()

        tenure.Lease._released_for_test = lambda lease: asyncio.to_thread(lease.release)
        self.addCleanup(lambda: delattr(tenure.Lease, "_released_for_test"))
        asyncio.run(main())

    def test_who_is_cancelled_while_it_waits_does_not_get_it(self):
        async def main():
            async with tenure.AsyncClient(self.address) as client:
                first = await client.lease("k")
                waits = asyncio.ensure_future(_had(client.lease("k", wait=None)))
                await asyncio.sleep(0.2)
                waits.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await waits
                await asyncio.to_thread(first.release)
                async with client.lease("k", wait=LONG) as again:
                    self.assertTrue(again.held)

        asyncio.run(main())

    def test_any_number_may_wait_while_another_gives_back(self):
        # More than asyncio's own pool has threads.
        count = min(32, (os.cpu_count() or 1) + 4) + 2

        async def main():
            async with tenure.AsyncClient(self.address) as client:

                async def turn():
                    async with client.lease("k", wait=LONG) as lease:
                        return lease.fence

                async with client.lease("k") as first:
                    waiting = [asyncio.ensure_future(turn()) for _ in range(count)]
                    await asyncio.sleep(0.2)
                fences = await asyncio.gather(*waiting)
                self.assertEqual(len(set(fences)), count)
                self.assertGreater(min(fences), first.fence)

        asyncio.run(asyncio.wait_for(main(), LONG))

    def test_who_is_cancelled_after_a_long_wait_waits_no_more(self):
        async def main():
            async with tenure.AsyncClient(self.address) as client:
                async with client.lease("k"):
                    waits = asyncio.ensure_future(_had(client.lease("k", wait=None)))
                    # The request is not the first one, or the agent was asked whether it is there.
                    await asyncio.sleep(1)
                    waits.cancel()
                    with self.assertRaises(asyncio.CancelledError):
                        await waits
                    await asyncio.to_thread(wait_until, "an end of the wait", lambda: not _threads("tenure asyncio"))

        for longest in ("_LONGEST_WAIT", "_LONGEST_SILENCE"):
            with self.subTest(longest), unittest.mock.patch.object(_client, longest, 0.2):
                asyncio.run(main())

    def test_what_is_cancelled_before_it_is_asked_for_is_not_asked_for(self):
        wire = Wire(self.address, None, None)
        wire.abort()
        with self.assertRaises(tenure.Unreachable):
            wire.ask("POST", "/v1/leases", {"key": "k"})
        self.assertIsNone(self.state("k"))


def _threads(name):
    return [thread for thread in threading.enumerate() if thread.name == name]


async def _had(wanted):
    return await wanted


class Tls(WithAgent):
    def start(self):
        certificate = self.path / "cert.pem"
        made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
        made += ["-subj", "/CN=test", "-addext", "subjectAltName=DNS:localhost", "-keyout", str(self.path / "key.pem"), "-out", str(certificate)]
        subprocess.run(made, check=True, capture_output=True)
        (self.path / "token").write_text("full-token-0123456789")
        command = [PROGRAM, "serve", "--listen", "127.0.0.1:0", "--token-file", str(self.path / "token"), "--ttl", self.ttl]
        command += ["--tls-cert", str(certificate), "--tls-key", str(self.path / "key.pem")]
        self.agent = subprocess.Popen(command, env=self.environment, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.agent.stderr.close)
        self.addCleanup(self.agent.wait)
        self.addCleanup(self.agent.kill)
        self.port = self.agent.stderr.readline().strip().rpartition(":")[2]
        self.address = f"https://localhost:{self.port}"
        self.known = {"token": "full-token-0123456789", "ca_file": str(certificate)}

    def test_an_agent_with_tls_is_believed_by_its_certificate_alone(self):
        with self.client(**self.known) as client, client.lease("k") as lease:
            first = lease._deadline_ns
            wait_until("a later deadline", lambda: lease._deadline_ns > first)
            self.assertTrue(lease.held)

        async def main():
            async with tenure.AsyncClient(self.address, **self.known) as client:
                async with client.lease("k") as lease:
                    self.assertTrue(lease.held)

        asyncio.run(main())
        with self.client(**self.known) as client, unittest.mock.patch.object(_client, "_LONGEST_SILENCE", 0.7):
            first = client.lease("k", wait=LONG)
            # It is asked meanwhile whether it is there.
            threading.Timer(2, first.release).start()
            with client.lease("k", wait=LONG) as lease:
                self.assertGreater(lease.fence, first.fence)
        # Another authority, and another name than those in the certificate.
        strangers = [tenure.Client(self.address, token=self.known["token"])]
        strangers.append(tenure.Client(f"https://127.0.0.1:{self.port}", **self.known))
        for stranger in strangers:
            with self.assertRaises(tenure.Unreachable) as refused:
                stranger.lease("k")
            self.assertIn("is not believed", str(refused.exception))
        with self.assertRaises(tenure.Refused) as refused:
            tenure.Client(self.address, token="another-token-0123", ca_file=self.known["ca_file"]).lease("k")
        self.assertEqual(refused.exception.code, "wrong_token")


class Address(unittest.TestCase):
    def test_a_directory_that_another_user_has_made_is_not_believed(self):
        user = 3_987_654_321
        directory = Path(f"/tmp/tenure-{user}")
        directory.mkdir()
        self.addCleanup(directory.rmdir)
        if os.geteuid() == 0:
            os.chown(directory, user - 1, -1)
        environment = {name: text for name, text in os.environ.items() if name not in ("TENURE_AGENT", "XDG_RUNTIME_DIR")}
        with unittest.mock.patch.dict(os.environ, environment, clear=True):
            with unittest.mock.patch("os.geteuid", lambda: user):
                with self.assertRaises(tenure.Unreachable) as refused:
                    default_address()
        self.assertIn("another user", str(refused.exception))


class Readme(WithAgent):
    def test_its_code_does_what_it_says(self):
        code = re.findall(r"```python\n(.*?)```", (HERE / "README.md").read_text(), re.DOTALL)
        self.assertGreater(len(code), 5)
        (self.path / "tenure").symlink_to(PROGRAM)
        environment = {
            **self.environment,
            "PYTHONPATH": str(HERE / "src"),
            "TENURE_AGENT": self.address,
            "PATH": f"{self.path}:{os.environ['PATH']}",
        }
        ran = subprocess.run(
            [sys.executable, "-c", "\n".join(code)], env=environment, capture_output=True, text=True, timeout=LONG
        )
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("writing with fence 1", ran.stdout)
        self.assertIn("http://10.0.0.7", ran.stdout)


class Package(unittest.TestCase):
    def test_it_is_installed_by_the_commands_of_the_readme(self):
        commands = re.search(r"```sh\n(.*?)```", (HERE / "README.md").read_text(), re.DOTALL).group(1)
        with tempfile.TemporaryDirectory() as directory:
            clone = Path(directory)
            shutil.copytree(HERE, clone / "clients" / "python")
            for folder in ["bin", "run"]:
                (clone / folder).mkdir()
            (clone / "bin" / "tenure").symlink_to(PROGRAM)
            environment = {
                "PATH": f"{clone}/bin:{os.environ['PATH']}",
                "XDG_RUNTIME_DIR": f"{clone}/run",
                "TENURE_STORE": f"sqlite:{clone}/leases.db",
                "TENURE_CONFIG": "/dev/null",
            }
            # The client asks the agent that was started, where both look for it by themselves.
            uses = "import tenure\nwith tenure.Client().lease('k'): print(tenure.__file__)"
            # Its types are what its users' programs are checked by, also where they are strict.
            types = "env/bin/pip install --quiet mypy==2.4.1\nenv/bin/mypy --strict -p tenure"
            script = f"trap 'kill $!' EXIT\n{commands}\n{types}\nuntil [ -S run/tenure/agent.sock ]; do sleep 0.1; done\nenv/bin/python -c \"{uses}\""
            # It fetches and checks what it installs, which takes minutes on a busy machine.
            ran = subprocess.run(
                ["sh", "-ec", script], cwd=clone, env=environment, capture_output=True, text=True, timeout=3 * LONG
            )
            self.assertEqual(ran.returncode, 0, f"venv, pip, and what it fetches to build with, are needed: {ran.stderr}")
            installed = Path(ran.stdout.splitlines()[-1])
            self.assertTrue(installed.is_relative_to(clone / "env"), installed)
            self.assertTrue((installed.parent / "py.typed").exists())
            licences = {path.name for path in (clone / "env").rglob("tenure_client-*.dist-info/**/LICENSE-*")}
            self.assertEqual(licences, {"LICENSE-APACHE", "LICENSE-MIT"})


if __name__ == "__main__":
    unittest.main()
