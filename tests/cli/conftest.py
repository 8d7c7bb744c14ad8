"""What the tests of commands share: a folder with files of data, and a way to run commands in this process."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("typer")
pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

from typer.testing import CliRunner  # noqa: E402

from hornbeam.cli.app import app  # noqa: E402

Run = Callable[..., Any]


def make_frame(n_rows: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"id": np.arange(n_rows), "age": rng.integers(18, 90, n_rows)})
    frame["income"] = rng.lognormal(10, 1, n_rows).round(2)
    frame["city"] = rng.choice(["Rome", "Oslo", "Lima"], n_rows)
    frame.loc[::9, "income"] = np.nan
    frame["w"] = rng.integers(1, 4, n_rows)
    frame["y"] = ((frame["age"] > 40) & (frame["city"] != "Rome") | (rng.random(n_rows) < 0.1)).astype(int)
    return frame


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train, valid and test as CSV, train as Parquet, and models m.json and other.json."""
    folder = tmp_path_factory.mktemp("cli")
    for seed, (name, n_rows) in enumerate((("train", 300), ("valid", 100), ("test", 80))):
        make_frame(n_rows, seed).to_csv(folder / f"{name}.csv", index=False)
    make_frame(300, 0).to_parquet(folder / "train.parquet")
    for name, leaves in (("m", 7), ("other", 5)):
        words = ["train", str(folder / "train.csv"), "-l", "y", "--ignore", "id,w", "-o", str(folder / f"{name}.json")]
        result = CliRunner().invoke(app, [*words, "objective=binary", "num_iterations=6", f"num_leaves={leaves}"])
        assert result.exit_code == 0, result.output
    return folder


@pytest.fixture
def run(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Return a function that runs a command in a folder with links to the files of data."""
    for file in source.iterdir():
        (tmp_path / file.name).symlink_to(file)
    monkeypatch.chdir(tmp_path)
    level = logging.getLogger("hornbeam").level

    def invoke(*words: str, code: int = 0, stdin: bytes = b"") -> Any:
        result = CliRunner().invoke(app, [str(word) for word in words], input=stdin)
        if result.exit_code != code:
            raise AssertionError(f"exit code {result.exit_code}: {result.output}") from result.exception
        return result

    yield invoke
    logging.getLogger("hornbeam").setLevel(level)
