"""Leases without an agent, by the program `tenure hold`.

Plan: what is held, told and given back, also by asyncio, unseen in the list of processes, after a Ctrl-C, by a program that says much, on another host, where the clock can not be read, by who forgets it, and in a forked child; whoever stops waiting, however that comes,
leaves no program behind that would have the lease later: a signal, a coroutine that is closed, a program that says what nobody understands, or does not end.
"""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
from pathlib import Path

from harness import HERE, LONG, PROGRAM, Interrupted, WithAgent, raised_by_a_signal, tenure, wait_until
from tenure import _hold
from tenure._clock import timeline


class WithoutAgent(WithAgent):
    def hold(self, key, **options):
        return tenure.hold(key, program=[PROGRAM], store=self.environment["TENURE_STORE"], **options)

    def test_a_program_holds_it(self):
        # It must outlast a moment in which the machine has other things to do.
        with self.hold("k", ttl=6) as lease:
            self.assertTrue(lease.held and lease.fence > 0)
            first = lease._deadline_ns
            wait_until("a later deadline", lambda: lease._deadline_ns > first)
            with self.assertRaises(tenure.HeldByAnother):
                self.hold("k")
        self.assertFalse(lease.held)
        self.assertEqual(self.state("k"), "vacant")

    def test_the_list_of_processes_does_not_tell_the_url(self):
        # With a password in it, every user of this host could read that there.
        for hold in self.hold, self.held_by_asyncio:
            lease = hold("k")
            commands = [Path(f"/proc/{process.pid}/cmdline").read_bytes() for process in list(_hold._programs) if process.poll() is None]
            self.assertEqual(len(commands), 1, commands)
            self.assertNotIn(self.environment["TENURE_STORE"].encode(), commands[0])
            lease.release()

    def test_a_program_that_passes_no_environment_on_has_the_store_that_was_named(self):
        with tenure.hold("k", program=["env", "-i", PROGRAM], store=self.environment["TENURE_STORE"]):
            self.assertEqual(self.state("k"), "held")

    def held_by_asyncio(self, key):
        async def holds():
            return await tenure.async_hold(key, program=[PROGRAM], store=self.environment["TENURE_STORE"])

        return asyncio.run(holds())

    def test_asyncio_has_it_and_who_is_cancelled_does_not(self):
        options = {"store": self.environment["TENURE_STORE"], "program": [PROGRAM]}

        async def holds():
            async with tenure.async_hold("k", ttl=10, **options) as lease:
                self.assertTrue(lease.held)
                with self.assertRaises(tenure.HeldByAnother):
                    await tenure.async_hold("k", **options)
                waiter = asyncio.ensure_future(tenure.async_hold("k", wait=None, **options).__aenter__())
                await asyncio.sleep(0)
                wait_until("the program to wait", lambda: sum(process.poll() is None for process in list(_hold._programs)) == 2)
                waiter.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await waiter
            self.assertFalse(lease.held)

        asyncio.run(holds())
        wait_until("all programs to end", lambda: all(process.poll() is not None for process in list(_hold._programs)))
        self.assertEqual(self.state("k"), "vacant")

    def test_a_program_that_goes_on_after_ctrl_c_keeps_its_lease(self):
        script = """
import signal, sys, time
import tenure
signal.signal(signal.SIGINT, lambda *_: print("interrupted", flush=True))
with tenure.hold("k", program=[sys.argv[1]], store=sys.argv[2]) as lease:
    print("held", flush=True)
    sys.stdin.readline()
    print(lease.held, flush=True)
"""
        command = [sys.executable, "-c", script, PROGRAM, self.environment["TENURE_STORE"]]
        environment = {**self.environment, "PYTHONPATH": str(HERE / "src")}
        child = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        with child:
            self.assertEqual(child.stdout.readline(), "held\n")
            # As a terminal sends it: to all of the group.
            os.killpg(child.pid, signal.SIGINT)
            self.assertEqual(child.stdout.readline(), "interrupted\n")
            refused = self.tenure("run", "--try", "k", "--", "true")
            self.assertEqual(refused.returncode, 75, refused.stderr)
            child.stdin.write("\n")
            child.stdin.close()
            self.assertEqual(child.stdout.read(), "True\n")
        self.assertEqual(self.tenure("run", "--try", "k", "--", "true").returncode, 0)

    def test_what_runs_while_the_interpreter_ends_has_the_lease_that_it_believes_in(self):
        script = """
import atexit, subprocess, sys
import tenure
def last():
    # Handlers that were registered before run after it.
    refused = subprocess.run([sys.argv[1], "run", "--wait", "1s", "k", "--", "true"], stderr=subprocess.DEVNULL)
    print(lease.held, refused.returncode)
atexit.register(last)
lease = tenure.hold("k", program=[sys.argv[1]], store=sys.argv[2])
"""
        command = [sys.executable, "-c", script, PROGRAM, self.environment["TENURE_STORE"]]
        environment = {**self.environment, "PYTHONPATH": str(HERE / "src")}
        said = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertEqual(said, "True 75\n")
        wait_until("its end to be seen", lambda: self.state("k") == "vacant")

    def test_a_loss_and_what_is_missing_are_told(self):
        lease = self.hold("k", at_most=0.3)
        self.assertTrue(lease.wait_lost(LONG))
        wait_until("its reason", lambda: lease.reason is not None)
        self.assertIn("for as long as it may", lease.reason)
        with self.assertRaises(tenure.AgentError):
            self.hold("session/x")
        with self.assertRaises(tenure.Unreachable):
            tenure.hold("k", program=[str(self.path / "nothing")])

    def test_a_program_that_says_much_does_not_stand_still(self):
        talks = """
import json, select, sys, time
def say():
    for _ in range(20000): print("trouble", file=sys.stderr)
say()
told = {"event": "acquired", "key": "k", "fence": 1, "deadline_boottime_ms": (time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 10**6) + 60000, "boot": sys.argv[1]}
print(json.dumps(told), flush=True)
say()
# Again and again: whoever looks late at the first deadline sees a later one, too.
while not select.select([sys.stdin], [], [], 0.05)[0]:
    told["deadline_boottime_ms"] += 1
    print(json.dumps({**told, "event": "extended"}), flush=True)
"""
        lease = tenure.hold("k", program=[sys.executable, "-c", talks, timeline()])
        first = lease._deadline_ns
        wait_until("a later deadline", lambda: lease._deadline_ns > first)
        self.assertTrue(lease.release())

    def test_a_clock_of_another_host_says_nothing(self):
        says = f"""
import sys
print('{{"event": "acquired", "key": "k", "fence": 1, "deadline_boottime_ms": {10**15}, "boot": "another/0"}}', flush=True)
sys.stdin.read()
"""
        with self.assertRaisesRegex(tenure.AgentError, "another host"):
            tenure.hold("k", program=[sys.executable, "-c", says])

    def test_a_clock_that_can_not_be_read_any_more_does_not_end_it(self):
        # As where no file descriptor is left, or after a `chroot`.
        with self.hold("k", ttl=6) as lease, unittest.mock.patch.object(_hold, "timeline", lambda: None):
            first = lease._deadline_ns
            wait_until("a later deadline", lambda: lease._deadline_ns > first)

    def test_what_it_says_later_and_nobody_understands_gives_the_lease_back(self):
        for says in ["hello", '{"event": "extended"}', '{"event": "extended", "boot": "another/0", "deadline_boottime_ms": 1}']:
            with self.subTest(says):
                talks = f"""
import json, sys
print(json.dumps({{"event": "acquired", "key": "k", "fence": 1, "deadline_boottime_ms": {10**15}, "boot": sys.argv[1]}}), flush=True)
print({says!r}, flush=True)
sys.stdin.read()
print(json.dumps({{"event": "released"}}), flush=True)
"""
                lease = tenure.hold("k", program=[sys.executable, "-c", talks, timeline()])
                self.assertTrue(lease.wait_lost(LONG))
                self.assertIn("tells of no lease", lease.reason)
                [process] = [process for process in list(_hold._programs) if talks in process.args]
                self.assertEqual(process.wait(LONG), 0)

    def test_a_lease_that_nobody_has_any_more_is_given_back(self):
        lease = self.hold("k")
        del lease
        gc.collect()
        self.hold("k", wait=LONG).release()

    def test_a_forked_child_does_not_keep_it(self):
        lease = self.hold("k")
        child = os.fork()
        if child == 0:
            time.sleep(LONG)
            os._exit(0)
        self.addCleanup(os.waitpid, child, 0)
        self.addCleanup(os.kill, child, signal.SIGKILL)
        released = []
        threading.Thread(target=lambda: released.append(lease.release()), daemon=True).start()
        wait_until("the release", lambda: released)
        self.assertEqual((released, self.state("k")), ([True], "vacant"))

    def test_who_is_interrupted_while_it_waits_leaves_nobody_who_gets_it_later(self):
        with self.hold("k", ttl=10):
            before = set(_hold._programs)

            def interrupt():
                wait_until("the program", lambda: set(_hold._programs) - before)
                # It may wait by now, or be about to.
                time.sleep(0.5)
                os.kill(os.getpid(), signal.SIGALRM)

            with raised_by_a_signal(interrupt), self.assertRaises(Interrupted):
                self.hold("k", wait=None)
        with self.hold("k", wait=LONG) as lease:
            self.assertTrue(lease.held)


class Program(unittest.TestCase):
    """With another program than tenure's, which tells by files that it has begun, and that its input was closed."""

    WAITS = """
import pathlib, sys
begun, closed, says = sys.argv[1:4]
if says: print(says, flush=True)
pathlib.Path(begun).touch()
sys.stdin.read()
pathlib.Path(closed).touch()
"""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.begun, self.closed = Path(directory.name) / "begun", Path(directory.name) / "closed"

    def program(self, says="", then=""):
        return [sys.executable, "-c", self.WAITS + then, str(self.begun), str(self.closed), says]

    def interrupt(self):
        wait_until("the program", self.begun.exists)
        os.kill(os.getpid(), signal.SIGALRM)

    def test_its_input_is_closed_when_its_caller_is_interrupted(self):
        with raised_by_a_signal(self.interrupt), self.assertRaises(Interrupted):
            tenure.hold("k", wait=None, program=self.program())
        # It has been waited for.
        self.assertTrue(self.closed.exists())

    def test_what_it_says_otherwise_than_tenure_is_told_and_ends_it(self):
        for says in ["hello", "[]", "{}"]:
            with self.subTest(says):
                with self.assertRaises(tenure.AgentError) as refused:
                    tenure.hold("k", program=self.program(says))
                self.assertIn(says, str(refused.exception))
                self.assertTrue(self.closed.exists())
                self.closed.unlink()

    def test_one_that_does_not_end_with_its_input_is_killed(self):
        with unittest.mock.patch.object(_hold, "_PARTING", 0.2):
            with raised_by_a_signal(self.interrupt), self.assertRaises(Interrupted):
                tenure.hold("k", wait=None, program=self.program(then="import time; time.sleep(600)"))
        self.assertEqual([process.poll() for process in list(_hold._programs) if process.poll() is None], [])

    def test_a_coroutine_that_is_closed_or_cancelled_leaves_none(self):
        async def holds():
            await tenure.async_hold("k", wait=None, program=self.program())

        async def main(end):
            holding = holds()
            # As a loop does that runs it.
            holding.send(None)
            await asyncio.to_thread(wait_until, "the program", self.begun.exists)
            end(holding)
            await asyncio.to_thread(wait_until, "its end", self.closed.exists)

        def cancels(holding):
            with self.assertRaises(asyncio.CancelledError):
                holding.throw(asyncio.CancelledError())

        for end in (lambda holding: holding.close(), cancels):
            asyncio.run(asyncio.wait_for(main(end), LONG))
            self.begun.unlink()
            self.closed.unlink()


if __name__ == "__main__":
    unittest.main()
