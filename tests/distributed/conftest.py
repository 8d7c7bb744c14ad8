"""What tests of workers share: a cluster, a server that forks its workers and other processes, and GPUs in turn."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hornbeam.testing.checks import usable_devices

PRELOADED = [
    "pytest",
    "pandas",
    "dask.array",
    "dask.dataframe",
    "distributed.nanny",
    "distributed.http.worker",
    "hornbeam.distributed.dask.estimators",
]
"""What the processes import, and the server before it forks them: one process needs the time for that in place of all.

What is not installed is left out.
"""

CONFIG = {
    "distributed.worker.multiprocessing-method": "forkserver",
    "distributed.scheduler.locks.lease-timeout": "1500ms",
    "distributed.scheduler.locks.lease-validation-interval": "250ms",
    "distributed.scheduler.work-stealing-interval": "1s",
    "distributed.admin.tick.interval": "500ms",
    "distributed.worker.memory.monitor-interval": "1s",
    "distributed.worker.profile.enabled": False,
}
"""A client that is gone loses its turn after 1.5 seconds instead of 30; Dask looks less often after itself."""


@pytest.fixture(scope="session")
def processes() -> Any:
    """Context of multiprocessing whose processes know nothing of this one, and start in a moment."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def _compile_as_here(conftest: str) -> None:
    """Let kernels of OpenCL be compiled in a worker as in all tests, which takes a tenth of the time."""
    import importlib.util

    place = importlib.util.spec_from_file_location("conftest_of_all", conftest)
    assert place is not None and place.loader is not None
    place.loader.exec_module(importlib.util.module_from_spec(place))


@pytest.fixture(scope="session")
def cluster(processes: Any) -> Iterator[Any]:
    """A Dask cluster of two worker processes that talk by TLS."""
    distributed = pytest.importorskip("distributed")
    pytest.importorskip("cryptography")
    import dask
    from distributed.utils import get_mp_context

    given = dict(CONFIG)
    if processes.get_start_method() != "forkserver":
        given["distributed.worker.multiprocessing-method"] = processes.get_start_method()
    with dask.config.set(given):
        get_mp_context().set_forkserver_preload(PRELOADED)  # Dask has set its own
        options = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
        with distributed.LocalCluster(n_workers=2, security=distributed.Security.temporary(), **options) as made:
            yield made


@pytest.fixture(scope="session")
def the_client(cluster: Any) -> Iterator[Any]:
    """A client that computes what asks for it alone: tests elsewhere have clusters of their own."""
    from distributed import Client

    made = Client(cluster, set_as_default=False)
    yield made
    made.close()


@pytest.fixture
def client(the_client: Any) -> Iterator[Any]:
    """The client of the cluster, for all that a test computes; a test before may have killed a worker."""
    the_client.wait_for_workers(2, timeout=60)
    with the_client.as_current():
        yield the_client


@pytest.fixture
def opencl_client(client: Any) -> Any:
    """The same, for a training whose workers compile kernels of OpenCL."""
    client.run(_compile_as_here, str(Path(__file__).parents[1] / "conftest.py"))
    return client


@pytest.fixture(scope="module", params=["opencl:0", "cuda:0"])
def gpu(request: pytest.FixtureRequest) -> str:
    """Every kind of GPU in turn, where there is one."""
    if request.param not in usable_devices():
        pytest.skip(f"there is no usable {request.param}")
    return str(request.param)
