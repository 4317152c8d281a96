"""Parses events and requests with the models of ag-ui-protocol.

    stdin   [{"name": …, "kind": "event" | "request", "text": the JSON}, …]
    stdout  [{"name": …, "error": …}, …]: those that are refused
"""

import json
import sys

from ag_ui.core import Event, RunAgentInput
from pydantic import TypeAdapter, ValidationError

MODELS = {"event": TypeAdapter(Event), "request": TypeAdapter(RunAgentInput)}

refused = []
for document in json.load(sys.stdin):
    try:
        MODELS[document["kind"]].validate_json(document["text"])
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        refused.append({"name": document["name"], "error": f"{'.'.join(map(str, first['loc']))}: {first['msg']}"})
json.dump(refused, sys.stdout)
