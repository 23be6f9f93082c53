"""Holds a lease around some work, without any library: python3 hold.py KEY. Needs `tenure` in the PATH, and Linux."""
import json, subprocess, sys, threading, time


class Lease:
    def __init__(self, key):
        # It gives the lease back when this program is gone, or says so: not at a Ctrl-C, after which this program may have something to end.
        command = ["tenure", "hold", key, "--json", "--until-eof"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, start_new_session=True, **pipes)
        self.is_over = False
        self.hear(self.process.stdout.readline() or sys.exit(f"{key} was not acquired"))
        threading.Thread(target=lambda: [self.hear(line) for line in self.process.stdout], daemon=True).start()

    def hear(self, line):
        event = json.loads(line)
        if "deadline_boottime_ms" in event:  # "acquired" and "extended"
            self.fence, self.until = event["fence"], event["deadline_boottime_ms"]
        elif event["event"] in ("lost", "released"):  # "asked" ends nothing by itself; the fence stays, so that late writes are refused
            self.is_over = True

    def is_held(self):
        return not self.is_over and time.clock_gettime(time.CLOCK_BOOTTIME) * 1000 < self.until

    def release(self):
        self.is_over = True  # before anybody else can have it
        self.process.stdin.close()
        self.process.wait()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: hold.py KEY")
    lease = Lease(sys.argv[1])
    print("working with fence", lease.fence, "held:", lease.is_held())
    lease.release()
