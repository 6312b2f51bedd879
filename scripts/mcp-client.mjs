// Lists and calls every tool of MCP with the package @modelcontextprotocol/client, over HTTP and over standard input
// and output, each in both lifecycles. Starts GARTH_BIN, and uses the server at GARTH_URL.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import process from "node:process";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const { GARTH_BIN, GARTH_URL, GARTH_KEY } = process.env;
const [data, callsFile] = process.argv.slice(2);
const calls = JSON.parse(readFileSync(callsFile, "utf8"));

/** Returns a part of a call with the values of its names, such as `$folder`. */
function filled(value, names) {
  let text = JSON.stringify(value);
  for (const [name, filling] of Object.entries(names)) {
    text = text.replaceAll(`$${name}`, filling);
  }
  return JSON.parse(text);
}

/** Calls every tool, with files in a folder of its own, and reads resources and the prompt. */
async function use(label, mode, transport, folder) {
  const client = new Client({ name: "mcp-clients", version: "1" }, { versionNegotiation: { mode } });
  await client.connect(transport);
  const tools = (await client.listTools()).tools.map((tool) => tool.name);
  assert.deepEqual([...tools].sort(), [...new Set(calls.map((call) => call.tool))].sort());
  // Later calls name fields of earlier answers.
  const names = { folder };
  for (const template of calls) {
    const call = filled(template, names);
    const result = await client.callTool({ name: call.tool, arguments: call.arguments });
    const text = result.content.map((content) => content.text ?? "").join("");
    assert.equal(result.isError ?? false, call.fails ?? false, `${label}: ${JSON.stringify(call)}: ${text}`);
    assert.ok(text.includes(call.text), `${label}: ${JSON.stringify(call)}: ${text}`);
    for (const name of ["version", "restore_at"]) {
      const value = result.structuredContent?.[name];
      if (typeof value === "string") {
        names[name] = value;
      }
    }
  }
  const resource = await client.readResource({ uri: `garth:///${folder}/garden.md` });
  assert.ok(resource.contents[0].text.includes("herbs"));
  assert.ok((await client.listResources()).resources.length > 0);
  const templates = (await client.listResourceTemplates()).resourceTemplates;
  assert.equal(templates[0].uriTemplate, "garth://{+path}");
  assert.ok((await client.getPrompt({ name: "workspace" })).messages.length > 0);
  console.log(`${label}: ${client.getNegotiatedProtocolVersion()}, ${tools.length} tools`);
  await client.close();
}

for (const mode of ["legacy", "auto", { pin: "2026-07-28" }]) {
  const name = mode.pin ?? mode;
  const args = ["mcp", "--user", "ann", "--tools", "all", "--data", data];
  const stdio = new StdioClientTransport({ command: GARTH_BIN, args });
  await use(`client of npm, stdio, ${name}`, mode, stdio, `npm-${name}`);
  const address = new URL("/mcp?user=ann&tools=all", GARTH_URL);
  const headers = { authorization: `Bearer ${GARTH_KEY}` };
  const http = new StreamableHTTPClientTransport(address, { requestInit: { headers } });
  await use(`client of npm, HTTP, ${name}`, mode, http, `npm-${name}`);
}
