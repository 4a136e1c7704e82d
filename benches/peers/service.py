"""The peer of the load benchmark: the same handler behind FastAPI, with nothing around it.

No key, no policy, no record, no receipt. `/echo` and `/inside` answer in this process, `/python`
starts an interpreter for each call and `/docker` a container; the commands come as JSON lists in
PEER_PYTHON and PEER_DOCKER.
"""

import ast
import asyncio
import json
import os

from fastapi import FastAPI, HTTPException
from handler import statistics
from pydantic import BaseModel

PYTHON = json.loads(os.environ["PEER_PYTHON"])
DOCKER = json.loads(os.environ["PEER_DOCKER"])


class Asked(BaseModel):
    text: str


app = FastAPI()


@app.get("/health")
async def health():
    return {"status": "ok"}


@app.post("/echo")
async def echo(asked: Asked):
    return {"message": asked.text}


@app.post("/inside")
async def inside(asked: Asked):
    return statistics(asked.text)


@app.post("/python")
async def python(asked: Asked):
    return await outside(PYTHON, asked.text)


@app.post("/docker")
async def docker(asked: Asked):
    return await outside(DOCKER, asked.text)


async def outside(command, text):
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)
    output, words = await process.communicate(text.encode())
    if process.returncode != 0:
        raise HTTPException(500, f"ended with {process.returncode}: {words.decode()[-500:]}")
    return ast.literal_eval(output.decode())
