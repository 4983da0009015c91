#!/usr/bin/env python3
"""Runs a command on a machine that stands still again and again, as a busy one does.

    scripts/paused.py make test
    PAUSES_SEED=7 PAUSES_MS=500-2500 PAUSES_EVERY_MS=5000 scripts/paused.py cargo test --test api

Every process below the command (a throwaway PostgreSQL, too) is stopped at once and goes on after a while. A test that fails
of this and not otherwise takes a pause for a fault: it should hold what it wants to meet in the middle, and not hope that the
machine is faster. Linux only.
"""

import ctypes
import os
import random
import signal
import subprocess
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
# When they see that their command was stopped, to be continued by a shell.
STOP_THEMSELVES = {"su", "runuser"}


def processes():
    """The parent, the state and the name of every process."""
    found = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                with open(f"{entry.path}/stat", encoding="utf-8", errors="replace") as file:
                    head, _, tail = file.read().rpartition(")")
            except OSError:
                continue
            state, parent = tail.split()[:2]
            found[int(entry.name)] = (int(parent), state, head.partition("(")[2])
    return found


def below(root):
    """Every process below this one, by whether it is stopped: a test may have stopped one for a purpose."""
    found = processes()
    children = {}
    for pid, (parent, _, _) in found.items():
        children.setdefault(parent, []).append(pid)
    waiting, running, stopped = list(children.get(root, [])), [], []
    while waiting:
        pid = waiting.pop()
        waiting += children.get(pid, [])
        _, state, name = found[pid]
        if state not in "TtZX":
            running.append(pid)
        elif state == "T" and name in STOP_THEMSELVES:
            stopped.append(pid)
    return running, stopped


def send(pids, signal_number):
    for pid in pids:
        try:
            os.kill(pid, signal_number)
        except (ProcessLookupError, PermissionError):
            pass


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    seed = int(os.environ.get("PAUSES_SEED", "1"))
    shortest, longest = (int(ms) for ms in os.environ.get("PAUSES_MS", "500-2500").split("-"))
    every = int(os.environ.get("PAUSES_EVERY_MS", "5000"))
    chance = random.Random(seed)
    # Whoever loses its parent is ours, too.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    command = subprocess.Popen(sys.argv[1:])
    pauses = 0

    def end(_signal, _frame):
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)
    try:
        while True:
            try:
                command.wait(chance.uniform(0.5, 1.5) * every / 1000)
                break
            except subprocess.TimeoutExpired:
                pass
            running, left = below(os.getpid())
            send(running, signal.SIGSTOP)
            try:
                time.sleep(chance.uniform(shortest, longest) / 1000)
            finally:
                send(running + left, signal.SIGCONT)
            pauses += 1
    except KeyboardInterrupt:
        command.send_signal(signal.SIGTERM)
        command.wait()
    print(f"{pauses} pauses of {shortest} to {longest} ms, seed {seed}", file=sys.stderr)
    sys.exit(command.returncode if command.returncode >= 0 else 128 - command.returncode)


if __name__ == "__main__":
    main()
