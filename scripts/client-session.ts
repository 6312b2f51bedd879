// Does the work of a session with the types that openapi-typescript generates, on the server at GARTH_URL.

import createClient from "openapi-fetch";
import type { paths } from "./openapi.js";

const key = process.env.GARTH_KEY;
const client = createClient<paths>({
  baseUrl: process.env.GARTH_URL ?? "",
  headers: { authorization: `Bearer ${key}` },
});

/** Returns the answer of a call that must succeed. */
function answer<T>(call: string, sent: { data?: T; error?: unknown }): T {
  if (sent.data === undefined) {
    throw new Error(`${call}: ${JSON.stringify(sent.error)}`);
  }
  return sent.data;
}

function check(holds: boolean, what: string): void {
  if (!holds) {
    throw new Error(what);
  }
}

const session = { agent: "scout", user: "tom", name: "meal" };

const put = answer("put", await client.POST("/v1/put", { body: { path: "/user/meal", value: { soup: "onion" } } }));
check(put.version_id.startsWith("ver_"), "a value has a version");
const found = answer("get", await client.POST("/v1/get", { body: { path: "/user/meal" } }));
check(found.found, "the value is found");
const refused = await client.POST("/v1/put", { body: { path: "/user/meal", value: 1, if_absent: true } });
check(refused.error?.error.code === "CONFLICT", "a second value is refused");

answer("sessions/create", await client.POST("/v1/sessions/create", { body: session }));
const messages = [{ role: "user" as const, content: "Cook onion soup on Friday." }];
const appended = answer("append", await client.POST("/v1/sessions/append", { body: { ...session, messages } }));
check(appended.messages.length === 1, "a message is appended");
const packed = answer("pack", await client.POST("/v1/context/pack", { body: { ...session, budget: 2000 } }));
check(JSON.stringify(packed.content).includes("onion soup"), "the pack has the message");
const question = { question: "What is cooked on Friday?", agent: "scout", user: "tom" };
const recalled = answer("recall", await client.POST("/v1/recall", { body: question }));
check(recalled.text.includes("onion soup"), "the message is recalled");
const searched = answer("search", await client.POST("/v1/search", { body: { query: "onion soup", kinds: ["messages"] } }));
check(searched.results.length > 0, "the message is found");
console.log("the TypeScript client has put, read, appended, packed, recalled and searched");
