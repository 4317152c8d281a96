"""Serves an ASGI application on a free port of this machine, and says on stdout where."""

import asyncio
import socket

import uvicorn


def serve(app):
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
    print(f"agent http://127.0.0.1:{listener.getsockname()[1]}/", flush=True)
    asyncio.run(server.serve(sockets=[listener]))
