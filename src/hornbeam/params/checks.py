"""One parameter: what values it takes, and their canonical form.

Each type of parameter has a check, which returns the canonical form of a value or raises `ParameterError`.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from hornbeam.core.dtypes import MAX_BIN
from hornbeam.core.errors import ParameterError
from hornbeam.params.constraints import (
    numbers_of,
    parse_contributions,
    parse_interactions,
    parse_monotone,
    parse_weights,
)
from hornbeam.params.forced_bins import parse_forced_bins
from hornbeam.params.forced_splits import parse_forced_splits

_NESTED = reprlib.Repr()
"""Shows dicts in messages: one may hold itself, or very many others."""
_NESTED.maxlevel, _NESTED.maxdict, _NESTED.maxstring = 3, 8, 60

WHOLE, NUMBER = re.compile(r"[+-]?\d+"), re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
"""Texts of numbers, which LightGBM and XGBoost take where a number is meant."""

DEVICE = re.compile(r"auto|gpu|cpu|reference|(cuda|opencl)(:\d+)?")


@dataclass(frozen=True)
class Parameter:
    """One row of the table.

    `choices` maps every accepted spelling to its canonical value. `none_below` turns every value below it into the
    default, for parameters where any such value means "off", so that one meaning has one canonical value. `instead`
    says what to do instead of values that a peer offers. `plain` is the number that None stands for where the objective
    leaves the parameter alone (Objective.open_values).
    """

    name: str
    type: str
    default: Any
    doc: str
    group: str
    aliases: tuple[str, ...] = ()
    choices: Mapping[str, str] | None = None
    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False
    none_below: float | None = None
    in_model: bool = True
    instead: Mapping[Any, str] = dataclasses.field(default_factory=dict)
    plain: float | None = None

    def check(self, value: Any) -> Any:
        """Return the canonical form of a value, or raise `ParameterError`."""
        if value is None and self.plain is not None:
            return None
        if isinstance(value, (str, int)) and not isinstance(value, bool) and value in self.instead:
            raise ParameterError(f"{self.name}={value!r} is not available here; {self.instead[value]}")
        return _CHECKS[self.type](self, value)

    def error(self, value: Any, allowed: str) -> ParameterError:
        """Make the error for a value that is not allowed."""
        shown = _NESTED.repr(value) if isinstance(value, dict) else repr(value)
        return ParameterError(f"{self.name}={shown}: must be {allowed} (default {self.default!r})")

    def range_text(self) -> str:
        """Describe the allowed numbers: `2 to 65535`, `> 0.0`; empty when there is no limit."""
        if self.none_below is not None or (math.isinf(self.low) and math.isinf(self.high)):
            return ""
        if math.isinf(self.high):
            return f"{'>' if self.low_open else '>='} {self.low}"
        if self.high_open:
            return f"{'>' if self.low_open else '>='} {self.low} and < {self.high}"
        return f"> {self.low} and <= {self.high}" if self.low_open else f"{self.low} to {self.high}"


def _check_number(parameter: Parameter, value: Any, kind: str) -> Any:
    if parameter.none_below is not None and value < parameter.none_below:
        return parameter.default if parameter.plain is None else parameter.plain
    too_low = value <= parameter.low if parameter.low_open else value < parameter.low
    too_high = value >= parameter.high if parameter.high_open else value > parameter.high
    if too_low or too_high:
        raise parameter.error(value, f"{kind} {parameter.range_text()}")
    return value


def _check_int(parameter: Parameter, value: Any) -> int:
    if isinstance(value, str) and WHOLE.fullmatch(value.strip()):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise parameter.error(value, f"an integer {parameter.range_text()}".rstrip())
    return int(_check_number(parameter, int(value), "an integer"))


def _check_float(parameter: Parameter, value: Any) -> float:
    if isinstance(value, str) and NUMBER.fullmatch(value.strip()):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise parameter.error(value, f"a number {parameter.range_text()}".rstrip())
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise parameter.error(value, f"a finite number {parameter.range_text()}".rstrip())
    return float(_check_number(parameter, number, "a number")) + 0.0  # + 0.0 turns -0.0 into 0.0: one zero, one model


def _check_start(parameter: Parameter, value: Any) -> float | tuple[float, ...] | None:
    """Check a number, or a list of numbers, one an output; a list of one is that number."""
    if value is None or not isinstance(value, (list, tuple, np.ndarray)):
        return None if value is None else _check_float(parameter, value)
    numbers = tuple(_check_float(parameter, one) for one in value)
    if not numbers:
        raise parameter.error(value, "a number, or a list of numbers, one an output")
    return numbers[0] if len(numbers) == 1 else numbers


def _check_alpha(parameter: Parameter, value: Any) -> float | tuple[float, ...]:
    """Check a number, or a list of numbers, which are quantiles; a list of one is that number."""
    if not isinstance(value, (list, tuple, np.ndarray)):
        return _check_float(parameter, value)
    numbers = tuple(_check_float(parameter, one) for one in value)
    if not numbers or max(numbers) >= 1.0 or len(set(numbers)) < len(numbers):
        raise parameter.error(value, "a number, or a list of different quantiles between 0 and 1")
    return numbers[0] if len(numbers) == 1 else numbers


def _check_bool(parameter: Parameter, value: Any) -> bool:
    if isinstance(value, str) and value.lower() in ("true", "false"):  # as in LightGBM's configuration files
        return value.lower() == "true"
    if not isinstance(value, (bool, np.bool_)):
        raise parameter.error(value, "True or False")
    return bool(value)


def _check_choice(parameter: Parameter, value: Any) -> str:
    choices = parameter.choices or {}
    if not isinstance(value, str) or value not in choices:
        allowed = "one of " + ", ".join(repr(choice) for choice in dict.fromkeys(choices.values()))
        raise parameter.error(value, allowed + did_you_mean(value, choices))
    return choices[value]


def _check_objective(parameter: Parameter, value: Any) -> str | Callable[..., Any]:
    if isinstance(value, type):
        raise parameter.error(value, "a name, or a function of scores and dataset, and is a class")
    return value if callable(value) else _check_choice(parameter, value)


def _check_metric(parameter: Parameter, value: Any) -> str | tuple[str, ...] | None:
    if value is None:
        return None
    given = value.split(",") if isinstance(value, str) else value
    if isinstance(given, (set, frozenset)):
        given = sorted(given, key=str)  # the order of a set differs from one run to the next
    if isinstance(given, (list, tuple)):
        given = [name for name in given if name is not None and name != ""]  # LightGBM leaves these out
        if not given:
            return None
    if not isinstance(given, (list, tuple)) or not all(isinstance(name, str) for name in given):
        raise parameter.error(
            value,
            "a metric's name, a list of names or None; pass a function to train as feval=, to fit as eval_metric=",
        )
    names = tuple(dict.fromkeys(str(name).strip() for name in given))
    if "" in names:
        raise parameter.error(value, "one name or more; None means the objective's own metric, 'none' no metric")
    return names[0] if isinstance(value, str) and len(names) == 1 else names


def _check_ranks(parameter: Parameter, value: Any) -> tuple[int, ...]:
    given = value if isinstance(value, (list, tuple, np.ndarray)) else [value]
    if isinstance(value, str):
        given = [int(text) if text.isdecimal() else text for text in numbers_of(value)]
    wrong = [one for one in given if isinstance(one, bool) or not isinstance(one, (int, np.integer)) or one < 1]
    if wrong or len(given) == 0:
        raise parameter.error(value, "an integer of at least 1, or a list of such, or a string such as '1,3'")
    return tuple(sorted({int(one) for one in given}))


def _check_gains(parameter: Parameter, value: Any) -> tuple[float, ...] | None:
    if value is None:
        return None
    given = list(value) if isinstance(value, (list, tuple, np.ndarray)) else []
    numbers = [one for one in given if isinstance(one, (int, float, np.number)) and not isinstance(one, bool)]
    if len(numbers) < len(given) or len(given) < 2 or not all(math.isfinite(one) for one in numbers):
        raise parameter.error(value, "a list of two or more finite numbers, the gain of label 0, 1, ..., or None")
    gains = tuple(float(one) + 0.0 for one in numbers)
    if gains[0] < 0.0 or any(low > high for low, high in pairwise(gains)):
        raise parameter.error(value, "a list of gains >= 0 that never fall: a higher label is never worth less")
    return gains


def _check_bins(parameter: Parameter, value: Any) -> tuple[int, ...] | None:
    if value is None or (isinstance(value, (str, list, tuple)) and len(value) == 0):
        return None
    given = value
    if isinstance(value, str):
        given = [int(text) if text.isdecimal() else text for text in numbers_of(value)]
    is_list = isinstance(given, (list, tuple, np.ndarray))
    if not is_list or any(isinstance(one, bool) or not isinstance(one, (int, np.integer)) for one in given):
        raise parameter.error(value, "a list of integers, one a feature, or None")
    if any(not 2 <= one <= MAX_BIN for one in given):
        raise parameter.error(value, f"a list of integers from 2 to {MAX_BIN}, one a feature")
    return tuple(int(one) for one in given)


def _check_costs(parameter: Parameter, value: Any) -> tuple[float, ...] | None:
    if value is None or (isinstance(value, (str, list, tuple)) and len(value) == 0):
        return None
    try:
        numbers = [float(one) for one in (numbers_of(value) if isinstance(value, str) else np.ravel(value).tolist())]
    except (TypeError, ValueError):
        raise parameter.error(value, "a list of numbers, num_class squared of them, or None") from None
    if not all(math.isfinite(one) for one in numbers) or math.isqrt(len(numbers)) ** 2 != len(numbers):
        raise parameter.error(value, "a list of finite numbers, num_class squared of them, or None")
    return tuple(numbers)


def _check_device(parameter: Parameter, value: Any) -> str:
    if not isinstance(value, str) or DEVICE.fullmatch(value) is None:
        allowed = "'auto', 'cpu', 'gpu', 'cuda', 'cuda:1', 'opencl', 'opencl:0' or 'reference'"
        raise parameter.error(value, allowed + "; hornbeam.devices() lists what this machine offers")
    return str(value)


def _check_threads(parameter: Parameter, value: Any) -> int:
    # scikit-learn's n_jobs=-1 is our 0
    return 0 if _check_int(parameter, value) == -1 else int(value)


def _check_columns(parameter: Parameter, value: Any) -> str | tuple[int | str, ...]:
    if isinstance(value, str):
        if value in ("auto", "from_dtype"):  # the latter as scikit-learn says it
            return value
        names = value.removeprefix("name:").split(",")
        value = names if value.startswith("name:") else [int(n) if n.strip().isdecimal() else n for n in names]
    given = [value] if isinstance(value, (int, np.integer)) and not isinstance(value, bool) else value
    if not isinstance(given, (list, tuple, set, frozenset, np.ndarray)):
        raise parameter.error(value, "'auto', or names and positions of columns")
    if len(given) and not isinstance(given, (set, frozenset)) and all(isinstance(e, (bool, np.bool_)) for e in given):
        return tuple(bool(entry) for entry in given)  # a mask, as scikit-learn takes it; the data say how long it is
    if any(isinstance(entry, bool) or not isinstance(entry, (int, np.integer, str)) for entry in given):
        raise parameter.error(value, "'auto', or names and positions of columns")
    return tuple(entry.strip() if isinstance(entry, str) else int(entry) for entry in given)


def _parsed(parse: Callable[[Any], Any]) -> Callable[[Parameter, Any], Any]:
    """Make a check of a parser whose ValueError says what is allowed."""

    def check(parameter: Parameter, value: Any) -> Any:
        try:
            return parse(value)
        except ValueError as error:
            raise parameter.error(value, str(error)) from None

    return check


_CHECKS: dict[str, Callable[[Parameter, Any], Any]] = {
    "int": _check_int,
    "float": _check_float,
    "start": _check_start,
    "alpha": _check_alpha,
    "bool": _check_bool,
    "choice": _check_choice,
    "objective": _check_objective,
    "metric": _check_metric,
    "device": _check_device,
    "threads": _check_threads,
    "columns": _check_columns,
    "signs": _parsed(parse_monotone),
    "factors": _parsed(parse_contributions),
    "weights": _parsed(parse_weights),
    "groups": _parsed(parse_interactions),
    "ranks": _check_ranks,
    "gains": _check_gains,
    "bins": _check_bins,
    "bounds": _parsed(parse_forced_bins),
    "splits": _parsed(parse_forced_splits),
    "costs": _check_costs,
}


def did_you_mean(name: Any, known: Iterable[str]) -> str:
    """Return the end of an error message that names known names like one that is not known; empty if none is."""
    near = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.6) if isinstance(name, str) else []
    return "; did you mean " + " or ".join(repr(match) for match in near) + "?" if near else ""


def whole_number(value: object, name: str, low: int, high: int | None = None) -> int:
    """Check an argument that must be an integer from low to high, and return it."""
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    number = int(value) if isinstance(value, (int, np.integer)) else low
    if not is_whole or number < low or (high is not None and number > high):
        allowed = f"from {low} to {high}" if high is not None else f"of at least {low}"
        raise ParameterError(f"{name}={value!r}: must be an integer {allowed}")
    return number
