"""Training parameters: one frozen, validated object, made from names and aliases.

The table of names, aliases, defaults, ranges and documentation is table.py. Nothing is dropped in silence: an
unknown name and a value out of range are errors; two names of one parameter that disagree are a warning.

`python -m hornbeam.params` prints docs/parameters.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from hornbeam.core.dtypes import MAX_LEAVES
from hornbeam.core.errors import ParameterError
from hornbeam.core.log import warn
from hornbeam.params.checks import did_you_mean, whole_number
from hornbeam.params.objective_names import RENEWED, USED_BY, FunctionBeside
from hornbeam.params.peer_parameters import idle_names, without_peer_parameters
from hornbeam.params.table import BY_NAME, GROUPS, PARAMETERS, ParameterTable

__all__ = [
    "BY_NAME",
    "GROUPS",
    "PARAMETERS",
    "RENEWED",
    "USED_BY",
    "Params",
    "canonical_names",
    "refuse_two_strategies",
    "whole_number",
]


@dataclass(frozen=True, kw_only=True)
class Params(ParameterTable):
    """The validated parameters of a training; attributes bear the canonical names.

    Make it with `Params.from_dict`, which knows the aliases. Fields are checked and brought to canonical form however
    the object is made.
    """

    given: ClassVar[frozenset[str]] = frozenset()
    """Names that `from_dict` was given, whatever their value."""
    idle: ClassVar[tuple[str, ...]] = ()
    """Names of the peers' parameters that `from_dict` was given and that change nothing here."""

    def __post_init__(self) -> None:
        """Check every field and bring it to its canonical form."""
        for parameter in PARAMETERS:
            object.__setattr__(self, parameter.name, parameter.check(getattr(self, parameter.name)))
        if self.boosting == "goss":
            object.__setattr__(self, "boosting", "gbdt")
            object.__setattr__(self, "data_sample_strategy", "goss")
        if self.objective in ("multiclass", "multiclassova"):
            if self.num_class < 2:
                raise ParameterError(
                    f"num_class={self.num_class}: objective={self.objective!r} needs the number of classes, "
                    "2 or more; set num_class"
                )
        elif isinstance(self.objective, str) and self.objective != "custom" and self.num_class != 1:
            raise ParameterError(
                f"num_class={self.num_class}: objective={self.objective!r} has one output; leave num_class at 1, "
                "or use objective='multiclass'"
            )
        if 0.0 < self.path_smooth < 1e-30:
            raise ParameterError(f"path_smooth={self.path_smooth} must be 0, or 1e-30 or more")
        if self.path_smooth > 0.0 and self.min_data_in_leaf < 2:
            raise ParameterError(
                f"path_smooth={self.path_smooth} needs min_data_in_leaf of 2 or more, and it is "
                f"{self.min_data_in_leaf}; raise it, or set path_smooth=0"
            )
        if self.is_unbalance and self.scale_pos_weight != 1.0:
            raise ParameterError(
                f"is_unbalance=True and scale_pos_weight={self.scale_pos_weight!r} both weigh the positive class; "
                "give one of them"
            )
        if isinstance(self.alpha, tuple):
            if self.objective != "quantile":
                raise ParameterError(
                    f"alpha={list(self.alpha)}: a list of quantiles is for objective='quantile', not "
                    f"{self.objective!r}; give one number"
                )
        elif self.objective in ("quantile", "expectile") and self.alpha >= 1.0:
            raise ParameterError(f"alpha={self.alpha!r}: must be below 1 for objective={self.objective!r}")
        if self.objective in RENEWED and self.monotone_constraints is not None:
            raise ParameterError(
                f"monotone_constraints with objective={self.objective!r}: leaf values are percentiles, without "
                "bounds; leave the constraints out, or use objective='huber'"
            )
        if self.linear_tree:
            self._check_linear()
        if self.num_parallel_tree > 1:
            self._check_parallel()
        if self.alpha != BY_NAME["alpha"].default:
            self.refuse_idle_alpha()

    def _check_linear(self) -> None:
        """Raise for what linear leaves cannot go with."""
        if self.objective in (*RENEWED, "logcosh"):
            raise ParameterError(
                f"linear_tree=True with objective={self.objective!r}: its leaf values are percentiles, which no linear "
                "function replaces; use objective='huber', or leave linear_tree out"
            )
        if self.monotone_constraints is not None:
            raise ParameterError(
                "linear_tree=True with monotone_constraints: linear leaves would break them (LightGBM holds them in "
                "the splits alone); leave one of the two out"
            )
        if self.multi_strategy == "multi_output_tree":
            raise ParameterError(
                "linear_tree=True with multi_strategy='multi_output_tree': a tree that all outputs share has constants "
                "in its leaves; use multi_strategy='one_output_per_tree'"
            )
        if self.boosting == "dart":
            raise ParameterError(
                "linear_tree=True with boosting='dart': trees that are dropped and come back must have constants in "
                "their leaves; use boosting='gbdt'"
            )

    def _check_parallel(self) -> None:
        """Raise for what several trees of the same gradients cannot go with."""
        if self.boosting != "gbdt":
            remedy = "raise num_iterations instead" if self.boosting == "rf" else "use boosting='gbdt'"
            raise ParameterError(
                f"num_parallel_tree={self.num_parallel_tree} with boosting={self.boosting!r}: trees side by side are "
                f"for 'gbdt'; {remedy}"
            )
        if self.objective in (*RENEWED, "logcosh"):
            raise ParameterError(
                f"num_parallel_tree={self.num_parallel_tree} with objective={self.objective!r}: its leaf values are "
                "percentiles of what the trees before have left over, and trees side by side have none before them; "
                "use boosting='rf', objective='huber' or num_parallel_tree=1"
            )

    def refuse_idle_alpha(self) -> None:
        """Raise where nothing looks at alpha, which then was meant as XGBoost's."""
        if not self.is_used("alpha"):
            raise ParameterError(
                f"alpha={self.alpha!r}: objective={self.objective!r} does not use it (only "
                f"{', '.join(sorted(USED_BY['alpha']))} do); for the L1 penalty on leaf values set lambda_l1, alias "
                "reg_alpha"
            )

    @property
    def level(self) -> float:
        """alpha as one number: of a list of quantiles the first."""
        return self.alpha[0] if isinstance(self.alpha, tuple) else self.alpha

    @property
    def objective_name(self) -> str:
        """The objective that makes predictions: "custom" where a function stands alone."""
        if isinstance(self.objective, FunctionBeside):
            return self.objective.named
        return "custom" if callable(self.objective) else str(self.objective)

    def is_used(self, name: str) -> bool:
        """Say whether the objective or a metric looks at a parameter of the table USED_BY."""
        metrics = (self.metric,) if isinstance(self.metric, str) else self.metric or ()
        users = (self.objective_name, *(metric.partition("@")[0] for metric in metrics))
        return any(user in USED_BY[name] for user in users)

    def unused(self) -> list[str]:
        """Return the parameters that are not at their default, but that neither objective nor metric looks at."""
        return [name for name in USED_BY if getattr(self, name) != BY_NAME[name].default and not self.is_used(name)]

    @classmethod
    def from_dict(cls, params: Mapping[str, Any] | None = None, **overrides: Any) -> Params:
        """Make parameters from names and aliases.

        Parameters
        ----------
        params
            Parameter values by name or alias; missing ones, and those that are None, take their default. Those of the
            peers that change nothing here are taken too, see peer_parameters.py.
        **overrides
            Values that win over those in `params`, whatever alias either uses. None means: not given.

        Raises
        ------
        ParameterError
            For an unknown name, or a value that is not allowed.
        """
        if params is not None and not isinstance(params, Mapping):
            raise ParameterError(f"params must be a dict of parameter names and values, not {type(params).__name__}")
        given = canonical_names(params or {})
        given.update(canonical_names({name: value for name, value in overrides.items() if value is not None}))
        refuse_two_strategies(given)
        made = cls(**given)
        object.__setattr__(made, "given", frozenset(given))
        object.__setattr__(made, "idle", idle_names({**(params or {}), **overrides}))
        if "alpha" in given and "lambda_l1" not in given:  # whoever gives both, means both
            made.refuse_idle_alpha()
        return made

    def replace(self, **changes: Any) -> Params:
        """Return a copy with some values (by name or alias) changed, checked again."""
        changed = canonical_names(changes)
        made = dataclasses.replace(self, **changed)
        object.__setattr__(made, "given", self.given | frozenset(changed))
        object.__setattr__(made, "idle", self.idle)
        return made

    def to_dict(self) -> dict[str, Any]:
        """Return every parameter by canonical name."""
        return {parameter.name: getattr(self, parameter.name) for parameter in PARAMETERS}

    def model_dict(self) -> dict[str, Any]:
        """Return what is saved with a model: values that may change the model and differ from the default, sorted.

        An objective function is saved as `"custom"`, or as the objective that is named besides. What only other
        objectives look at cannot change the model.
        """
        values = {
            p.name: getattr(self, p.name)
            for p in sorted(PARAMETERS, key=lambda p: p.name)
            if p.in_model and (p.name not in USED_BY or self.objective_name in USED_BY[p.name])
        }
        values["objective"] = self.objective_name
        return {
            name: value
            for name, value in values.items()
            if value != BY_NAME[name].default and (BY_NAME[name].plain is None or value != BY_NAME[name].plain)
        }

    def number(self, name: str) -> float:
        """Return the value of a parameter that may be left open, or the number that None stands for."""
        value = getattr(self, name)
        return float(BY_NAME[name].plain if value is None else value)  # type: ignore[arg-type]

    def settle(self, chosen: Mapping[str, float]) -> Params:
        """Return a copy in which parameters that are left open (None) have the values chosen for them."""
        chosen = {name: value for name, value in chosen.items() if getattr(self, name) is None}
        return self.replace(**chosen) if chosen else self


NONE_IS_NO_LIMIT = {"max_leaf_nodes": MAX_LEAVES}
"""What None means for names of scikit-learn's, where it is not that they are not given."""


def canonical_names(params: Mapping[Any, Any]) -> dict[str, Any]:
    """Return checked values by canonical name; raise for unknown names.

    What is None is not given. Of names of one parameter that disagree the canonical one counts, else the shortest, of
    equally long ones the first by the alphabet, as in LightGBM, and a warning says so.
    """
    values: dict[str, Any] = {}
    spelled: dict[str, str] = {}
    for name, value in without_peer_parameters(params).items():
        row = BY_NAME.get(name) if isinstance(name, str) else None
        if row is None:
            hint = did_you_mean(name, BY_NAME) or "; docs/parameters.md lists all names"
            raise ParameterError(f"unknown parameter {name!r}{hint}")
        if value is None and name in NONE_IS_NO_LIMIT:
            value = NONE_IS_NO_LIMIT[name]
        if value is None:
            if row.default is None:  # where None is a value like others
                values.setdefault(row.name, None)
            continue
        value = row.check(value)
        if values.get(row.name) is not None and values[row.name] != value:
            before = spelled[row.name]
            kept = min(before, name, key=lambda spelling: (spelling != row.name, len(spelling), spelling))
            shown = f"{before}={values[row.name]!r} and {name}={value!r}"
            warn(f"{shown} are two names of one parameter ({row.name}): {kept} is taken", _verbosity(params))
            if kept == before:
                continue
        values[row.name], spelled[row.name] = value, name
    return values


def _verbosity(params: Mapping[Any, Any]) -> int | None:
    """Return the verbosity that parameters ask for; None: they do not say."""
    given = params.get("verbosity", params.get("verbose"))
    return given if isinstance(given, int) else None


def refuse_two_strategies(given: Mapping[str, Any]) -> None:
    """Raise where `boosting` and `data_sample_strategy`, both given, say different things; names are canonical."""
    if given.get("boosting") == "goss" and given.get("data_sample_strategy") == "bagging":
        raise ParameterError(
            "boosting='goss' and data_sample_strategy='bagging' are two ways to choose rows; boosting='goss' is short "
            "for boosting='gbdt' with data_sample_strategy='goss': give one of them"
        )
