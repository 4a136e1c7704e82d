const { Worker } = require("node:worker_threads");
const { execFile } = require("node:child_process");
const { promisify } = require("node:util");
const fs = require("node:fs/promises");
const http = require("node:http");

async function main() {
  await fs.writeFile("greeting", "hello");
  const server = http.createServer(async (_, response) => response.end(await fs.readFile("greeting")));
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  const answer = await fetch(`http://127.0.0.1:${server.address().port}/`);
  console.log("served:", await answer.text());
  server.close();
  server.closeAllConnections();
  const source = "require('node:worker_threads').parentPort.postMessage(6 * 7)";
  const worker = new Worker(source, { eval: true });
  console.log("worker:", await new Promise((message) => worker.once("message", message)));
  const { stdout } = await promisify(execFile)("echo", ["hi"]);
  console.log("child:", stdout.trim());
}

main();
