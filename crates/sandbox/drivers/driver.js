'use strict';
// The Node side of a sandbox: reads jobs on the job channel, runs them, reports.
//
// `driver.js once` runs one job and exits; `driver.js session` keeps a context. It runs
// beside hostile code, as the same user: it is a convenience and never a boundary.

const path = require('path');

const modes = { once: './once.js', session: './session.js' };
const mode = process.argv[2];

if (process.argv.length !== 3 || !Object.hasOwn(modes, mode)) {
  process.stderr.write('usage: driver.js once|session\n');
  process.exitCode = 2;
} else {
  require(path.join(__dirname, modes[mode])).serve();
}
