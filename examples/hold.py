"""Holds a lease around some work, without any library: python3 hold.py KEY. Needs `tenure` in the PATH, and Linux."""
import json, subprocess, sys, threading, time


class Lease:
    def __init__(self, key):
        command = ["tenure", "hold", key, "--json"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.hear(self.process.stdout.readline() or sys.exit(f"{key} was not acquired"))
        threading.Thread(target=lambda: [self.hear(line) for line in self.process.stdout], daemon=True).start()

    def hear(self, line):
        event = json.loads(line)
        self.fence = event.get("fence")
        self.until = event.get("deadline_boottime_ms", 0)  # nothing after "lost" and "released"

    def is_held(self):
        return time.clock_gettime(time.CLOCK_BOOTTIME) * 1000 < self.until

    def release(self):
        self.process.stdin.close()
        self.process.wait()


lease = Lease(sys.argv[1])
print("working with fence", lease.fence, "held:", lease.is_held())
lease.release()
