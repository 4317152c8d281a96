"""Validates recorded streams with ag-ui-validate.

    stdin   [{"name": …, "events": [JSON texts]}, …]
    stdout  [{"name": …, "errors": ["rule: message", …]}, …]: one for each stream
"""

import json
import sys

from ag_ui_validate import create_validator

answers = []
for stream in json.load(sys.stdin):
    validator = create_validator()
    for text in stream["events"]:
        validator.feed(text)
    validator.finalize()
    found = [one for one in validator.report().diagnostics if one.severity == "error"]
    answers.append({"name": stream["name"], "errors": [f"{one.rule}: {one.message}" for one in found]})
json.dump(answers, sys.stdout)
