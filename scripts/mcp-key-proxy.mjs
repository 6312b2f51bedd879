// Forwards every request to /mcp of the server at GARTH_URL, with the API key GARTH_KEY, for clients that cannot send
// one. Prints its own address.

import http from "node:http";
import process from "node:process";

const { GARTH_URL, GARTH_KEY } = process.env;
const { hostname, port } = new URL(GARTH_URL);
const proxy = http.createServer((request, response) => {
  const headers = { ...request.headers, authorization: `Bearer ${GARTH_KEY}` };
  const options = { hostname, port, path: "/mcp?user=ann&tools=all", method: request.method, headers };
  const forwarded = http.request(options, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  forwarded.on("error", () => response.destroy());
  response.on("close", () => forwarded.destroy());
  request.pipe(forwarded);
});
proxy.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${proxy.address().port}/mcp`));
