"""The script that holds a device against the committed fingerprints says "same", "differs", and exits accordingly."""

from __future__ import annotations

import numpy as np
import pytest

from hornbeam.backends.gpu.runtime.devices import open_runtime
from hornbeam.testing import column_checks, verify

CASE = "golden: binary, missing"


def names_checked(text: str) -> list[str]:
    """Return the names of the checks in what the script printed."""
    return [line.split(" s  ")[1].split("  ")[0] for line in text.splitlines() if " s  " in line]


def test_a_device_that_gives_the_committed_models_passes(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify.main(["--device", device, "--rows", "400", "--only", CASE]) == 0
    printed = capsys.readouterr().out
    assert names_checked(printed)
    assert "DIFFERS" not in printed


def test_a_model_that_differs_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    expected = dict.fromkeys(verify.CASES, "0" * 64)
    monkeypatch.setattr(verify, "expected_fingerprints", lambda: expected)
    assert verify.main(["--device", "cpu", "--rows", "400", "--only", CASE]) == 1
    assert "DIFFERS" in capsys.readouterr().out


def test_parts_make_the_whole(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def names(*arguments: str) -> list[str]:
        assert verify.main(["--device", "cpu", "--rows", "400", *arguments]) == 0
        return names_checked(capsys.readouterr().out)

    def nothing_to_do(device: str, *rows: int) -> list[tuple[str, verify.Check]]:
        return [(f"check {number} of {rows}", str) for number in range(5)]

    for family in ("golden", "operation", "metric", "training", "ranking", "thread", "worker", "prediction", "array"):
        monkeypatch.setattr(verify, f"{family}_checks", nothing_to_do)
    parts = [names("--part", f"{number}/4") for number in (1, 2, 3, 4)]
    assert sorted(name for part in parts for name in part) == sorted(names())
    assert all(parts)


@pytest.mark.parametrize("part", ["0/4", "5/4", "1", "a/b", "-1/4"])
def test_a_part_that_is_none_is_refused(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        verify.main(["--device", "cpu", f"--part={part}"])
    assert "K/N" in capsys.readouterr().err


@pytest.mark.parametrize("given", [[], ["--device", "auto"]])
def test_the_device_must_be_named(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        verify.main([*given, "--only", "nothing"])
    assert "--device" in capsys.readouterr().err


def test_a_gpu_can_be_taken_for_a_smaller_one(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if device in ("cpu", "reference"):
        with pytest.raises(SystemExit):
            verify.main(["--device", device, "--compute-units", "1", "--only", "nothing"])
        return
    runtime, seen = open_runtime(device), []

    def look(device: str, *rows: int) -> list[tuple[str, verify.Check]]:
        seen.append(runtime.facts.compute_units)
        return [("nothing", str)]

    before = runtime.facts
    monkeypatch.setattr(verify, "golden_checks", look)
    assert verify.main(["--device", device, "--compute-units", "3", "--only", "nothing"]) == 0
    assert seen == [3]
    assert runtime.facts == before


def test_nothing_to_verify_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert verify.main(["--device", "cpu", "--rows", "400", "--only", "no such check"]) == 1
    assert "nothing is verified" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--device", "abacus"], "must be 'auto', 'cpu', 'gpu'"),
        (["--device", "cuda:77"], "device='cuda:77' is not available here"),
        (["--device", "cpu", "--rows", "0"], "--rows 0: the checks take 400 or more"),
    ],
)
def test_a_device_that_is_not_there_and_too_few_rows_are_one_line(
    given: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        verify.main([*given, "--only", CASE])
    assert ended.value.code != 0
    assert words in capsys.readouterr().err


def test_golden_cases_can_be_small(capsys: pytest.CaptureFixture[str]) -> None:
    assert verify.main(["--device", "cpu", "--golden-rows", "30", "--only", "binary, missing"]) == 0
    assert names_checked(capsys.readouterr().out)
    with pytest.raises(SystemExit):
        verify.main(["--device", "cpu", "--golden-rows", "0"])


def test_checks_of_device_columns_hold_for_arrays_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they train on is accepted, which a machine without a GPU can see too."""
    monkeypatch.setattr(column_checks, "find_spec", lambda name: name != "torch" or None)
    monkeypatch.setattr(column_checks, "_wrapper", lambda library, device: np.asarray)
    results = {name: check() for name, check in column_checks.column_checks("cpu", 400)}
    assert len(results) > 10
    assert set(results.values()) == {""}
