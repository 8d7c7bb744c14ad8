"""Memory of the host: what was freed goes back to the system when it is asked to."""

from __future__ import annotations

import subprocess
import sys

import pytest

FREED = """
from hornbeam.core.host_memory import give_back

def megabytes():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) >> 10

before = megabytes()
pieces = [bytearray(20_000) for _ in range(5_000)]
last = pieces.pop()  # what lies above the others keeps them from going back by themselves
full = megabytes()
pieces.clear()
freed = megabytes()
give_back()
print(full - before, freed - before, megabytes() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells what a process holds")
def test_freed_memory_goes_back_to_the_system():
    run = subprocess.run([sys.executable, "-c", FREED], capture_output=True, text=True, check=True)
    full, freed, left = map(int, run.stdout.split())
    assert full > 80
    if freed < 80:
        pytest.skip("the C library gives back by itself")
    assert left < 10
