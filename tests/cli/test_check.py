"""The command that looks at a table: `mtlrun data check`."""

import json

import numpy as np
import pandas as pd


def test_the_command_lists_findings_and_refuses_unknown_columns(mtlrun, tmp_path):
    path = tmp_path / "clinics.csv"
    rng = np.random.default_rng(0)
    pressures = rng.normal(139, 18, 300).round()
    pressures[57] = 13682
    frame = pd.DataFrame(
        {
            "clinic": [f"clinic {k % 15}" for k in range(300)],
            "pressure": pressures,
            "one": 1,
            "y": rng.normal(size=300),
        }
    )
    frame.to_csv(path, index=False)
    result = mtlrun("data", "check", str(path), "--target", "y", "--task", "clinic")
    assert result.exit_code == 0
    first, second = result.stdout.splitlines()
    assert "clinics.csv:59" in first
    assert first.startswith("may change the answer")
    assert "'one'" in second
    assert second.startswith("note")
    records = json.loads(mtlrun("data", "check", str(path), "--json").stdout)
    assert records[0]["column"] == "pressure"
    refused = mtlrun("data", "check", str(path), "--target", "why")
    assert refused.exit_code == 2
    assert "why" in refused.stderr
