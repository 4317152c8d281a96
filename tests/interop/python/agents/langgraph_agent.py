"""A LangGraph graph behind ag-ui-langgraph's endpoint, on a chat model that needs no network.

    python3 langgraph_agent.py          prints `agent http://127.0.0.1:PORT/` when it listens

Two nodes and one question back to the user, so that steps, streamed tool calls, tool results, state and messages
snapshots, RAW events and an interrupt pass:

    first turn             the model says two pieces of text and calls `lookup`; its result is added; the model says one
                           more piece; the node `approve` interrupts with a question
    the interrupt answered the node ends with what was answered
"""

from typing import Annotated

from ag_ui_langgraph import LangGraphAgent, add_langgraph_fastapi_endpoint
from fastapi import FastAPI
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import interrupt
from typing_extensions import TypedDict

from serve import serve


class Fake(BaseChatModel):
    """A model that looks things up before it answers."""

    @property
    def _llm_type(self):
        return "fake"

    def _pieces(self, messages):
        if isinstance(messages[-1], ToolMessage):
            return [AIMessageChunk(content="查到 3 台主机。")]
        call = {"name": "lookup", "id": "call-lookup", "index": 0}
        return [
            AIMessageChunk(content="我先"),
            AIMessageChunk(content="查一下。"),
            # As the providers do: the name first, its arguments after it.
            AIMessageChunk(content="", tool_call_chunks=[{**call, "args": ""}]),
            AIMessageChunk(content="", tool_call_chunks=[{**call, "name": None, "id": None, "args": '{"kind":'}]),
            AIMessageChunk(content="", tool_call_chunks=[{**call, "name": None, "id": None, "args": '"主机"}'}]),
        ]

    def _stream(self, messages, stop=None, run_manager=None, **kwargs):
        for piece in self._pieces(messages):
            chunk = ChatGenerationChunk(message=piece)
            if run_manager:
                run_manager.on_llm_new_token(piece.content, chunk=chunk)
            yield chunk

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        whole = AIMessageChunk(content="")
        for chunk in self._stream(messages):
            whole += chunk.message
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content=whole.content, tool_calls=whole.tool_calls))])


class State(TypedDict):
    messages: Annotated[list, add_messages]
    hosts: int
    verdict: str


async def ask(state: State):
    return {"messages": [await Fake().ainvoke(state["messages"])]}


async def lookup(state: State):
    call = state["messages"][-1].tool_calls[0]
    result = ToolMessage(id="result-lookup", content='{"hosts": 3}', tool_call_id=call["id"])
    return {"messages": [result], "hosts": 3}


async def approve(state: State):
    answer = interrupt({"message": "重启 3 台主机？", "hosts": state["hosts"]})
    return {"verdict": str(answer)}


def after_ask(state: State):
    return "lookup" if state["messages"][-1].tool_calls else "approve"


graph = StateGraph(State)
graph.add_node("ask", ask)
graph.add_node("lookup", lookup)
graph.add_node("approve", approve)
graph.add_edge(START, "ask")
graph.add_conditional_edges("ask", after_ask, ["lookup", "approve"])
graph.add_edge("lookup", "ask")
graph.add_edge("approve", END)

app = FastAPI()
agent = LangGraphAgent(name="hosts", graph=graph.compile(checkpointer=InMemorySaver()), emit_interrupt_outcome=True)
add_langgraph_fastapi_endpoint(app, agent, "/")

if __name__ == "__main__":
    serve(app)
