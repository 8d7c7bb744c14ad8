"""CPUs: as many as the process may use, as many threads as asked for."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import hornbeam
from hornbeam.core import cpus as module
from hornbeam.core.cpus import _cgroup_cpus, available_cpus, resolve_threads

UNLIMITED = 1 << 30


@pytest.mark.parametrize(
    ("content", "cpus"),
    [
        ("max 100000\n", UNLIMITED),
        ("100000 100000\n", 1),
        ("150000 100000\n", 2),
        ("400000 100000\n", 4),
        ("1000 100000\n", 1),
    ],
)
def test_quota_of_cgroup_version_2_is_rounded_up(tmp_path, content, cpus):
    (tmp_path / "cpu.max").write_text(content)
    assert _cgroup_cpus(tmp_path) == cpus


@pytest.mark.parametrize(("quota", "cpus"), [("-1", UNLIMITED), ("250000", 3), ("100000", 1), ("0", UNLIMITED)])
def test_quota_of_cgroup_version_1_is_rounded_up(tmp_path, quota, cpus):
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(quota + "\n")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    assert _cgroup_cpus(tmp_path) == cpus


def test_no_cgroup_means_no_limit(tmp_path):
    assert _cgroup_cpus(tmp_path) == UNLIMITED


@pytest.mark.parametrize("content", ["", "nonsense\n"])
def test_unreadable_cgroup_means_no_limit(tmp_path, content):
    (tmp_path / "cpu.max").write_text(content)
    assert _cgroup_cpus(tmp_path) == UNLIMITED


def test_quota_and_affinity_both_limit(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(6)), raising=False)
    for quota, cpus in ((4, 4), (UNLIMITED, 6), (100, 6)):
        monkeypatch.setattr(module, "_quota", lambda quota=quota: quota)
        assert available_cpus() == cpus


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_affinity_of_the_process_is_respected():
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "from hornbeam.core.cpus import available_cpus, resolve_threads\n"
        "print(available_cpus(), resolve_threads(0), resolve_threads(3))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["1", "1", "3"]


def test_number_of_threads_is_honoured(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert resolve_threads(5) == 5
    assert resolve_threads(0) == available_cpus()


def test_devices_tell_the_threads_that_a_training_has(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert hornbeam.devices()[0].description.startswith("1 thread(s)")
