"""The paper's tables and figures on this machine, beside the paper's numbers and beside the peers: one page.

    make paper                                                  # small data, about ten minutes on two cores
    python benchmarks/paper.py --rows full --minutes 9          # the paper's sizes; again, until all is done
    python benchmarks/paper.py --rows full --data folder        # real files where the folder has them
    python benchmarks/paper.py --rows full --only memory,bandwidth
    python benchmarks/paper.py --rows full --draw               # page and figures from what was measured, nothing more

It writes results.json after each step, does no step twice, and ends with paper.md and its figures, all in one folder
(build/paper-small, build/paper-full, or --out). What is not there (a GPU, a library) is skipped with a line. Data are
made in the shapes of the paper's sets unless --data names a folder; docs/paper_data.md says where the files come from.
Steps, for --only: hardware, memory, time (trainings: metrics, times, convergence, bins), profile, bandwidth.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from reproduction import bandwidth, hardware, memory, page, profiles, trainings
from reproduction.journal import Journal, OutOfTimeError
from reproduction.learners import DEVICES, LIBRARIES, METHODS
from reproduction.sets import SETS

STEPS = ("hardware", "bandwidth", "memory", "profile", "time")
SAME = {"metrics": "time", "convergence": "time", "bins": "time", "statistics": "time"}
"""Names of tables that come from the trainings."""


def names(known: list[str]) -> type:
    """Return what turns "a,b" into a list of known names."""

    def parse(text: str) -> list[str]:
        found = [SAME.get(name.strip(), name.strip()) for name in text.split(",")]
        for name in found:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(known)}")
        return list(dict.fromkeys(found))

    return parse  # type: ignore[return-value]


def options() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", choices=["small", "full"], default="small", help="the size of the data")
    parser.add_argument("--data", type=Path, help="folder with the real files")
    parser.add_argument("--out", type=Path, help="folder for results, page and figures")
    parser.add_argument("--only", type=names(list(STEPS)), default=list(STEPS), help="steps to do: memory,time")
    parser.add_argument("--sets", type=names(list(SETS)), default=list(SETS), help="of them these data sets")
    parser.add_argument("--libraries", type=names(list(LIBRARIES)), default=list(LIBRARIES), help="hornbeam,xgboost")
    parser.add_argument("--methods", type=names(list(METHODS)), default=list(METHODS), help="k255,k63,exact")
    parser.add_argument("--devices", type=names(list(DEVICES)), default=list(DEVICES), help="gpu,cpu")
    parser.add_argument("--minutes", type=float, default=0.0, help="begin no step after so many minutes")
    parser.add_argument("--each", type=float, default=0.0, help="seconds of a training: longer ones end early")
    parser.add_argument("--retry", action="store_true", help="do steps again that failed")
    parser.add_argument("--draw", action="store_true", help="measure nothing: page and figures from the results")
    return parser.parse_args()


def measure(journal: Journal, given: argparse.Namespace) -> bool:
    """Do all steps; returns whether there was time for all of them."""
    each = given.each or trainings.SECONDS_EACH[given.rows]
    jobs = trainings.plan(given.sets, given.libraries, given.devices) if "time" in given.only else []
    jobs = [job for job in jobs if job[3] in given.methods]
    amounts = [job for job in memory.plan(given.sets) if job[1] in given.methods] if "memory" in given.only else []
    profiled = [(one, device) for one in profiles.PROFILED if one in given.sets for device in given.devices]
    profiled = profiled if "profile" in given.only else []
    curves = [(device, bins) for device in given.devices for bins in bandwidth.BINS]
    curves = curves if "bandwidth" in given.only else []
    n_sets = len({job[0] for job in jobs})
    with journal.progress(len(jobs) + n_sets + len(amounts) + len(profiled) + len(curves) + 1):
        try:
            if "hardware" in given.only or "hardware" not in journal.steps:
                journal.steps.pop("hardware", None)
                journal.step("hardware", hardware.facts)
            bandwidth.run(journal, curves, given.rows)
            memory.run(journal, amounts, given.rows)
            profiles.run(journal, profiled, given.rows, given.data)
            trainings.run(journal, jobs, given.rows, given.data, each)
        except OutOfTimeError:
            return False
    return True


def main() -> None:
    """Measure, then write the page."""
    given = options()
    out = given.out or Path(f"build/paper-{given.rows}")
    setting = {"rows": given.rows, "data": given.data is not None}
    if given.draw and not (out / "results.json").exists():
        raise SystemExit(f"--draw: {out / 'results.json'} is not there; measure first, or name its folder by --out")
    journal = Journal(out / "results.json", {} if given.draw else setting, given.minutes, given.retry)
    if not given.draw:
        journal.commands.append(shlex.join(["python", "benchmarks/paper.py", *sys.argv[1:]]))
        complete = measure(journal, given)
        journal.write()
        if not complete:
            print(f"{given.minutes:g} minutes are over: run the same command again to go on", file=sys.stderr)
    for line in page.write(out):
        print(line)


if __name__ == "__main__":
    main()
