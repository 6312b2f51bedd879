"""Lists and calls every tool of MCP with the package `mcp`, over HTTP and over standard input and output, each in both
lifecycles. Starts GARTH_BIN, and uses the server at GARTH_URL."""

import asyncio
import json
import os
import sys
from pathlib import Path

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

CALLS = json.loads((Path(__file__).parent / "mcp-calls.json").read_text())


def text_of(result):
    """Returns the text of the answer of a tool."""
    return "".join(getattr(content, "text", "") for content in result.content)


def filled(value, names):
    """Returns a part of a call with the values of its names, such as `$folder`."""
    text = json.dumps(value)
    for name, filling in names.items():
        text = text.replace(f"${name}", filling)
    return json.loads(text)


async def use(client, label, folder):
    """Calls every tool, with files in a folder of its own, and reads resources and the prompt."""
    tools = [tool.name for tool in (await client.list_tools()).tools]
    assert sorted(tools) == sorted({call["tool"] for call in CALLS}), tools
    # Later calls name fields of earlier answers.
    names = {"folder": folder}
    for call in CALLS:
        call = filled(call, names)
        result = await client.call_tool(call["tool"], call["arguments"])
        text = text_of(result)
        assert bool(result.is_error) == call.get("fails", False), f"{label}: {call}: {text}"
        assert call["text"] in text, f"{label}: {call}: {text}"
        fields = result.structured_content or {}
        names |= {name: fields[name] for name in ["version", "restore_at"] if isinstance(fields.get(name), str)}
    resource = await client.read_resource(f"garth:///{folder}/garden.md")
    assert "herbs" in resource.contents[0].text, resource
    assert (await client.list_resources()).resources, label
    assert (await client.list_resource_templates()).resource_templates[0].uri_template == "garth://{+path}", label
    assert (await client.get_prompt("workspace")).messages, label
    print(f"{label}: {client.protocol_version}, {len(tools)} tools")


async def main():
    url, key = os.environ["GARTH_URL"], os.environ["GARTH_KEY"]
    arguments = ["mcp", "--user", "ann", "--tools", "all", "--data", sys.argv[1]]
    server = StdioServerParameters(command=os.environ["GARTH_BIN"], args=arguments)
    for mode in ["legacy", "auto", "2026-07-28"]:
        folder = f"python-{mode}"
        async with Client(server, mode=mode) as client:
            await use(client, f"mcp of PyPI, stdio, {mode}", folder)
        http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"})
        address = f"{url}/mcp?user=ann&tools=all"
        async with Client(streamable_http_client(address, http_client=http), mode=mode) as client:
            await use(client, f"mcp of PyPI, HTTP, {mode}", folder)


asyncio.run(main())
