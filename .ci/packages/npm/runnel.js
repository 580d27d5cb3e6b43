#!/usr/bin/env node
// Starts the program of this system, which npm has installed beside this package.
"use strict";
const { spawn } = require("node:child_process");

const name = `${require("./package.json").name}-${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/bin/runnel${process.platform === "win32" ? ".exe" : ""}`);
} catch {
  console.error(`runnel: ${name} is not installed: install without --omit=optional, or take the program from the releases`);
  process.exit(1);
}

// stdin and stdout are the host's, untouched: when the host closes them, the program ends, and this with it.
const child = spawn(program, process.argv.slice(2), { stdio: "inherit", windowsHide: true });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => child.kill(signal));
}
child.on("error", (err) => {
  console.error(`runnel: ${err.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
