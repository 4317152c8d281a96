"""A pydantic-ai agent behind the AG-UI application that pydantic-ai brings, on a model that needs no network.

    python3 pydantic_ai_agent.py        prints `agent http://127.0.0.1:PORT/` when it listens

Runs with pydantic-ai 2 (ag-ui-protocol 1.0) and with pydantic-ai 1.0 (ag-ui-protocol 0.1), which serve AG-UI through
different modules. The model is a function of the conversation, so what it says is known:

    first turn             thinks, calls the tool `weather` (a result and a state snapshot), calls `unreliable` (which
                           fails), says two pieces of text, and calls the client's own tool confirmAction
    the user says 崩溃      calls `crash`, which raises: the run ends in an error
    the user says 谢谢      repeats what it said before, as it finds it in the conversation
    a tool message          says what the answer was
"""

import json

from ag_ui.core import EventType, StateSnapshotEvent
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.messages import RetryPromptPart, TextPart, ToolReturn, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import DeltaThinkingPart, DeltaToolCall, FunctionModel
from starlette.applications import Starlette
from starlette.routing import Route

from serve import serve


def last_words(messages):
    """What the model is asked to answer: the user's text, or what came back from a tool."""
    for part in reversed(messages[-1].parts):
        if isinstance(part, UserPromptPart):
            return part.content
        if isinstance(part, (ToolReturnPart, RetryPromptPart)) and part.tool_name:
            return part
    raise ValueError(f"nothing to answer in {messages[-1]}")


def call(name, call_id, *pieces):
    """The deltas of one tool call, its arguments in pieces."""
    yield {1: DeltaToolCall(name=name, json_args=pieces[0], tool_call_id=call_id)}
    for piece in pieces[1:]:
        yield {1: DeltaToolCall(json_args=piece)}


async def model(messages, info):
    said = last_words(messages)
    if isinstance(said, str) and "谢谢" in said:
        spoken = [part.content for message in messages for part in message.parts if isinstance(part, TextPart)]
        yield f"不客气。我说过：{''.join(spoken)}"
    elif isinstance(said, str):
        yield {0: DeltaThinkingPart(content="用户想知道天气，")}
        yield {0: DeltaThinkingPart(content="先查询。")}
        if "崩溃" in said:
            for delta in call("crash", "call-crash", "{}"):
                yield delta
        else:
            for delta in call("weather", "call-weather", '{"city":', '"北京"}'):
                yield delta
    elif said.tool_name == "weather":
        for delta in call("unreliable", "call-unreliable", "{}"):
            yield delta
    elif said.tool_name == "unreliable":
        yield "北京晴，"
        yield "22 度。"
        for delta in call("confirmAction", "call-confirm", '{"action":"预订","importance":', '"high"}'):
            yield delta
    else:
        answer = said.content if isinstance(said.content, str) else json.dumps(said.content)
        yield "已确认。" if "true" in answer.lower() else "已取消。"


agent = Agent(FunctionModel(stream_function=model))


@agent.tool_plain
def weather(city: str) -> ToolReturn:
    """The weather in a city."""
    snapshot = StateSnapshotEvent(type=EventType.STATE_SNAPSHOT, snapshot={"city": city, "days": [1, 2]})
    return ToolReturn(return_value={"city": city, "sky": "晴"}, metadata=[snapshot])


@agent.tool_plain(retries=2)
def unreliable() -> str:
    """A tool that always fails."""
    raise ModelRetry("the service is down")


@agent.tool_plain
def crash() -> str:
    """A tool with a defect."""
    raise RuntimeError("secret detail of the agent")


async def run(request):
    try:
        from pydantic_ai.ui.ag_ui import AGUIAdapter  # pydantic-ai 2
    except ImportError:
        from pydantic_ai.ag_ui import handle_ag_ui_request  # pydantic-ai 1.0

        return await handle_ag_ui_request(agent, request)
    return await AGUIAdapter.dispatch_request(request, agent=agent)


if __name__ == "__main__":
    serve(Starlette(routes=[Route("/", run, methods=["POST"])]))
