"""The JSON schema of experiment and training files, for the completion and checks of editors."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from mtlrun.estimators.registry import METHODS
from mtlrun.metricfacts import METRIC_FACTS
from mtlrun.papers.measure import MEASURES
from mtlrun.runs.methods import quantities_of
from mtlrun.runs.schema import MEASURE_KINDS, ExperimentSpec
from mtlrun.runs.trainspec import TrainSpec

#: Models that may also be written as the one text that they need.
_SHORT = ("DatasetSpec", "FeatureStep", "TrainMethod")


def config_schema() -> dict[str, Any]:
    """Return the schema (JSON Schema 2020-12) of every file that mtlrun reads under ``configs``.

    It says what the pydantic models say, and in addition which short forms are read and which methods and metrics
    there are. Files may still be refused for what needs more than one value, see `mtlrun validate`.
    """
    either: Any = TypeAdapter(Annotated[ExperimentSpec | TrainSpec, Field(union_mode="left_to_right")])
    schema: dict[str, Any] = either.json_schema(by_alias=True)
    definitions = schema["$defs"]
    for name in _SHORT:
        short = {**definitions[name], "title": name}
        text: dict[str, Any] = {"type": "string"}
        if name == "TrainMethod":
            text = {"$ref": "#/$defs/EstimatorName"}
        if name == "FeatureStep":
            text = {"enum": short["properties"]["kind"]["enum"]}
        definitions[name] = {"anyOf": [text, short]}
    definitions["EstimatorName"] = {
        "description": "A registered method, or package.module:Class of any scikit-learn estimator.",
        "anyOf": [{"enum": sorted(METHODS)}, {"type": "string", "pattern": "^[A-Za-z_][\\w.]*:[A-Za-z_]\\w*$"}],
    }
    definitions["MetricName"] = {"enum": sorted(METRIC_FACTS)}
    for name in ("Method", "TrainMethod"):
        _properties(definitions[name])["estimator"] = {"$ref": "#/$defs/EstimatorName"}
    definitions["MeasureName"] = {
        "description": "A registered measure, or package.module:function.",
        "anyOf": [{"enum": sorted(MEASURES)}, {"type": "string", "pattern": "^[A-Za-z_][\\w.]*:[A-Za-z_]\\w*$"}],
    }
    quantities = sorted({*METRIC_FACTS, *(quantities_of(MEASURES) or ())})
    definitions["QuantityName"] = {"anyOf": [{"enum": quantities}, {"type": "string"}]}
    _properties(definitions["Method"])["measure"] = {"$ref": "#/$defs/MeasureName"}
    _properties(definitions["TrainSpec"])["metrics"]["items"] = {"$ref": "#/$defs/MetricName"}
    definitions["ExperimentSpec"].update(_by_kind(definitions["ExperimentSpec"]["required"]))
    experiment = _properties(definitions["ExperimentSpec"])
    experiment["metrics"]["items"] = {"$ref": "#/$defs/QuantityName"}
    for name in ("default_for", "tolerance"):
        several = experiment[name]
        experiment[name] = {"anyOf": [several["items"], several], "default": []}
    sweep = _properties(definitions["Sweep"])
    sweep["params"] = {"anyOf": [{"type": "string"}, *sweep["params"]["anyOf"]], "default": None}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "mtlrun experiment or training file",
        "if": {"properties": {"kind": {"const": "train"}}, "required": ["kind"]},
        "then": {"$ref": "#/$defs/TrainSpec"},
        "else": {"$ref": "#/$defs/ExperimentSpec"},
        "$defs": definitions,
    }


def _by_kind(required: list[str]) -> dict[str, Any]:
    """Return what an experiment has by its kind, and what it must have unless it extends another."""
    measured = {"properties": {"kind": {"enum": list(MEASURE_KINDS)}}, "required": ["kind"]}
    fitted = {
        "properties": {
            "metrics": {"items": {"$ref": "#/$defs/MetricName"}},
            "methods": {"items": {"not": {"required": ["measure"]}}},
        },
    }
    whole = {"properties": {"methods": {"items": {"anyOf": [{"required": [n]} for n in ("estimator", "measure")]}}}}
    with_data = {"if": measured, "else": {"required": ["datasets"]}}
    own = [name for name in required if name in ("schema", "id", "title")]
    return {
        "required": own,
        "allOf": [
            {"if": measured, "then": {"properties": {"methods": {"items": {"not": {"required": ["estimator"]}}}}}},
            {"if": measured, "else": fitted},
            {"if": {"required": ["extends"]}, "else": {"required": required, "allOf": [whole, with_data]}},
        ],
    }


def _properties(definition: dict[str, Any]) -> dict[str, Any]:
    model = definition["anyOf"][1] if "anyOf" in definition else definition
    found: dict[str, Any] = model["properties"]
    return found
