"""What is said, when, and whether the user wants to hear it."""

from __future__ import annotations

import logging
import threading
import time

import pytest

import hornbeam as hb
from hornbeam.backends.gpu.runtime import runtime
from hornbeam.core.log import inform, speaking, warn


@pytest.fixture
def said(caplog, monkeypatch):
    monkeypatch.setattr(runtime, "_compiled", {})
    monkeypatch.setattr(runtime, "_told", set())
    monkeypatch.setattr(runtime, "WORTH_SAYING", 0.2)
    monkeypatch.setattr(runtime, "CACHED", 0.02)
    with caplog.at_level(logging.INFO, "hornbeam"):
        yield lambda: [record.message for record in caplog.records if "compiling GPU kernels" in record.message]


def compile_for(seconds: float, device: str = "one") -> None:
    assert runtime.timed_compilation(lambda: time.sleep(seconds) or 7, device) == 7


def test_a_slow_compilation_is_announced_while_it_lasts(said):
    seen = threading.Event()

    def slow() -> None:
        for _ in range(1000):
            if said():
                seen.set()
                return
            time.sleep(0.01)

    runtime.timed_compilation(slow, "one")
    assert seen.is_set()
    assert len(said()) == 1


def test_many_short_compilations_are_announced_once(said):
    compile_for(0.05)
    assert said() == []
    for _ in range(8):
        compile_for(0.05)
    assert len(said()) == 1
    compile_for(0.3, "two")
    assert len(said()) == 2


def test_kernels_read_from_the_cache_are_not_announced(said, monkeypatch):
    monkeypatch.setattr(runtime, "CACHED", 10.0)
    for _ in range(10):
        compile_for(0.03)
    assert said() == []


def test_verbosity_of_the_training_is_honoured(said):
    with speaking(-1):
        compile_for(0.3)
        inform("compiling GPU kernels, too")
    assert said() == []
    with speaking(1):
        compile_for(0.05)  # whoever wants to hear it is told late rather than never
    assert len(said()) == 1


def test_a_compilation_that_fails_raises(said):
    with pytest.raises(KeyError):
        runtime.timed_compilation(lambda: {}["no"], "one")
    assert said() == []


def test_what_is_said_is_held_back_for_a_block_or_for_good(caplog):
    def heard():
        caplog.clear()
        warn("careful", 1)
        inform("by the way", 1)
        return [record.message for record in caplog.records]

    with caplog.at_level(logging.INFO, "hornbeam"):
        with hb.config_context(verbosity=0):
            assert heard() == []
            assert hb.get_config()["verbosity"] == 0
        assert heard() == ["careful", "by the way"]
        hb.set_config(verbosity=1)
        try:
            assert heard() == ["careful"]
            with hb.config_context(verbosity=2):
                assert heard() == ["careful", "by the way"]
            assert hb.get_config()["verbosity"] == 1
        finally:
            hb.set_config(verbosity=None)
    assert heard() == ["careful", "by the way"]


@pytest.mark.parametrize("wrong", [{"verbosity": 4}, {"verbosity": "0"}, {"use_rmm": True}, {"nthread": 2}])
def test_other_settings_are_refused(wrong):
    with pytest.raises(hb.ParameterError, match="set_config"):
        hb.set_config(**wrong)
