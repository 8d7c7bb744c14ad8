"""The scripts in examples/: they run here, and with the names changed in the library that they are written for."""

import contextlib
import io
import re
from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(
    path for folder in ("lightgbm", "xgboost", "scikit_learn") for path in (EXAMPLES / folder).glob("*.py")
)
CHANGES = {
    "lightgbm": [("import hornbeam as lgb", "import lightgbm as lgb"), ("from hornbeam", "from lightgbm"),
                 ("Hornbeam", "LGBM")],
    "xgboost": [("import hornbeam as xgb", "import xgboost as xgb")],
    "scikit_learn": [("from hornbeam", "from sklearn.ensemble"), ("Hornbeam", "HistGradientBoosting")],
}  # fmt: skip
"""What is changed in a script that comes over, the other way round: imports and the names of estimators."""


def lines(source, path):
    """Run a script and return what it prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), threadpool_limits(1):  # threads of the peers wait for each other, spinning
        exec(compile(source, str(path), "exec"), {"__name__": "__main__"})
    found = [line for line in out.getvalue().splitlines() if not re.match(r"\[|Training until|Early|Did not|\s", line)]
    return [line for line in found if line]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
@pytest.mark.filterwarnings("ignore")
def test_a_script_prints_the_same_with_the_peer(path):
    peer = {"scikit_learn": "sklearn"}.get(path.parent.name, path.parent.name)
    pytest.importorskip(peer)
    source = path.read_text()
    ours = lines(source, path)
    for old, new in CHANGES[path.parent.name]:
        source = source.replace(old, new)
    assert "ornbeam" not in source
    theirs = lines(source, path)
    assert len(ours) == len(theirs) > 1
    for mine, other in zip(ours, theirs, strict=True):
        numbers = [[float(text) for text in re.findall(r"\d+\.\d+", line)] for line in (mine, other)]
        assert re.sub(r"\d+\.\d+", "#", mine) == re.sub(r"\d+\.\d+", "#", other)
        assert numbers[0] == pytest.approx(numbers[1], rel=0.15, abs=0.03)
