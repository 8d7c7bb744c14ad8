"""Training on several workers: time, messages and bytes a tree, and what they say of a cluster.

    python benchmarks/scaling.py --rows 200000 --features 28 --leaves 63 --workers 1 2 4

    mpiexec -n 4 python benchmarks/scaling.py --mpi --rows 2000000 --leaves 255 --threads 4

Workers are threads of this process, with --threads each, so that what is counted is the same for every transport; with
--mpi they are the processes that mpiexec has started, which share no interpreter; with --nccl there is one, which does
what each of several GPUs would. Beside them one process without workers, with as many threads as all of them have.
Compute and communication are measured apart: communication is the time that the first worker spends in collectives,
waiting for the others included.

--project prints what the figures of the last number of workers mean for 16 machines with 10 Gb/s between them and 1.7
billion rows x 67 features, the largest set that LightGBM has published times of (42 s a tree). Every assumption is
printed.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np

import hornbeam as hb
from hornbeam.backends.gpu.runtime.devices import open_runtime
from hornbeam.distributed import Part, PartDataset, run_workers, train
from hornbeam.distributed.collective import Traffic
from hornbeam.distributed.host_memory import join_hosts
from hornbeam.distributed.mpi import MpiCollective
from hornbeam.distributed.nccl import NcclCollective
from hornbeam.params.params import Params

REPEATS = 5
LIGHTGBM_SECONDS, ROWS, FEATURES, MACHINES, GIGABITS, LATENCY = 42.0, 1.7e9, 67, 16, 10.0, 50e-6


def make_data(n_rows: int, n_features: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    y = (X[:, 0] * X[:, 1] + X[:, 2] ** 2 + rng.normal(size=n_rows) > 1.0).astype(np.float64)
    return X, y


def timed(params: dict, rounds: int, run) -> tuple[float, object]:
    """Return the seconds of an iteration, from trainings of two lengths: what comes before the trees cancels out.

    It is the median of some pairs, since other programs may take the CPUs.

    run  (params, n_rounds) -> what it has made, and the seconds of the training
    """
    run(params, 1)  # kernels are compiled, or loaded
    found = []
    for _ in range(REPEATS):
        _, short = run(params, 1)
        result, long = run(params, 1 + rounds)
        found.append((long - short) / rounds)
    return statistics.median(found), result


def train_part(params: dict, data: PartDataset, n_rounds: int, group) -> tuple[tuple[str, Traffic], float]:
    """Train on one worker, on bins that are there; returns fingerprint and traffic, and the seconds."""
    data.construct(Params.from_dict(params))
    group.all_gather(b"", "beginning")
    group.traffic = Traffic()
    begun = time.perf_counter()
    booster = train(params, data, n_rounds)
    seconds = time.perf_counter() - begun
    return (booster.fingerprint(), group.traffic), seconds


def on_workers(X: np.ndarray, y: np.ndarray, n_workers: int, by_nccl: bool = False):
    cuts = [len(X) * i // n_workers for i in range(n_workers + 1)]

    def run(params: dict, n_rounds: int):
        def work(collective):
            if by_nccl:
                collective = NcclCollective(collective, open_runtime("cuda:0"))
            own = slice(cuts[collective.rank], cuts[collective.rank + 1])
            data = PartDataset(collective, [Part.make(collective.rank, X[own], label=y[own])])
            return train_part(params, data, n_rounds, collective)

        return run_workers(n_workers, work)[0]

    return run


def on_processes(X: np.ndarray, y: np.ndarray, group):
    own = slice(len(X) * group.rank // group.size, len(X) * (group.rank + 1) // group.size)
    data = PartDataset(group, [Part.make(group.rank, X[own], label=y[own])])

    def run(params: dict, n_rounds: int):
        return train_part(params, data, n_rounds, group)

    return run


def on_one(data: hb.Dataset):
    def run(params: dict, n_rounds: int):
        data.construct(Params.from_dict(params))
        begun = time.perf_counter()
        booster = hb.train(params, data, n_rounds)
        return booster, time.perf_counter() - begun

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--features", type=int, default=28)
    parser.add_argument("--leaves", type=int, default=63)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--threads", type=int, default=1, help="threads of each worker")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--project", action="store_true")
    parser.add_argument("--nccl", action="store_true", help="one worker that adds up by NCCL, as one of several would")
    parser.add_argument("--mpi", action="store_true", help="workers are the processes of mpiexec")
    given = parser.parse_args()
    group = join_hosts(MpiCollective()) if given.mpi else None
    if group is not None or given.nccl:
        given.workers = [1 if group is None else group.size]
    X, y = make_data(given.rows, given.features)
    params = {"objective": "binary", "num_leaves": given.leaves, "device": given.device, "verbosity": -1}
    if group is None or group.rank == 0:
        head = f"{given.rows:,} x {given.features}, {given.leaves} leaves, {given.device}"
        print(f"{head}, {given.threads} threads a worker")
        print("workers  s/tree  in collectives  operations/tree  MB sent/tree  one process s/tree  same model")
    for n_workers in given.workers:
        own = {**params, "num_threads": given.threads}
        run = on_workers(X, y, n_workers, given.nccl) if group is None else on_processes(X, y, group)
        per_tree, (fingerprint, traffic) = timed(own, given.rounds, run)
        if group is not None and group.rank > 0:
            return
        alone = {**params, "num_threads": given.threads * n_workers}
        data = hb.Dataset(X, label=y)
        one, booster = timed(alone, given.rounds, on_one(data))
        trees = given.rounds + 1
        seconds, operations, sent = (
            traffic.seconds / trees, traffic.operations / trees, traffic.bytes_sent / trees / 1e6
        )  # fmt: skip
        same = fingerprint == booster.fingerprint()
        print(
            f"{n_workers:7} {per_tree:7.4f} {seconds:15.4f} {operations:16.1f} {sent:13.2f} {one:19.4f}  {same}",
            flush=True,
        )
    if given.project:
        project(given, per_tree - seconds, operations, sent, n_workers)


def project(given: argparse.Namespace, compute: float, operations: float, sent: float, n_workers: int) -> None:
    """Print the time of a tree on a cluster, from measured compute, operations and bytes."""
    cells = ROWS * FEATURES / MACHINES / (given.rows * given.features / n_workers)
    wider = FEATURES / given.features
    bytes_a_tree = sent * 1e6 * wider * (MACHINES - 1) / MACHINES / max((n_workers - 1) / n_workers, 1e-9)
    transfer, waiting = bytes_a_tree * 8 / (GIGABITS * 1e9), operations * LATENCY * np.log2(MACHINES)
    print(f"\nprojection to {MACHINES} machines, {ROWS:.2g} rows x {FEATURES}, {given.leaves} leaves; assumed:")
    print(f"  each machine has {given.threads} threads like those measured; {compute:.3f} s of compute a tree here")
    print(f"  compute grows with rows x features of a machine: {cells:.0f} times as many")
    print(f"  bytes grow with the features and with (machines - 1) / machines: {bytes_a_tree / 1e6:.1f} MB sent a tree")
    print(f"  {GIGABITS:g} Gb/s a machine, {LATENCY * 1e6:g} us a step, log2(machines) steps an operation")
    total = compute * cells + transfer + waiting
    parts = f"compute {compute * cells:.1f} s + transfer {transfer:.3f} s + latency {waiting:.4f} s"
    print(f"  {parts} = {total:.1f} s a tree")
    print(f"  LightGBM's published time for that size: {LIGHTGBM_SECONDS:g} s a tree, on machines of 16 cores (2 CPUs)")


if __name__ == "__main__":
    main()
