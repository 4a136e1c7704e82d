'use strict';
// Runs a job's source as the main module, CommonJS or ES.

const fs = require('fs');
const os = require('os');
const path = require('path');
const vm = require('vm');
const { pathToFileURL } = require('url');
const Module = require('module');

const ending = require('./ending.js');

// Only source that mentions one of these is worth a second compilation.
const MAYBE_ES = /\b(?:import|export|await)\b/;
const ES_ONLY = /import statement|'export'|import\.meta|await is only valid|Unexpected (?:reserved word|identifier 'await')|'await'/;

// Whether the source needs the ES loader: it fails as CommonJS for that reason.
function isEs(code, filename) {
  if (filename.endsWith('.mjs')) return true;
  if (!MAYBE_ES.test(code)) return false;
  try {
    new vm.Script(Module.wrap(code.replace(/^#!.*/, '')), { filename });
    return false;
  } catch (error) {
    return error instanceof SyntaxError && ES_ONLY.test(error.message);
  }
}

// A module object as node makes for its main file.
function mainModule(filename, code) {
  const made = new Module(filename, undefined);
  made.id = '.';
  made.filename = filename;
  made.paths = Module._nodeModulePaths(path.dirname(filename));
  Module._cache[filename] = made;
  process.mainModule = made;
  ending.state.sources.set(filename, code);
  return made;
}

// Imports source that is not on disk: it lies beside the job for as long as that takes,
// so that its relative imports resolve.
function importSource(filename, code) {
  const place = write(filename, code);
  const url = pathToFileURL(place).href;
  ending.state.sources.set(place, code);
  ending.state.rename = (text) => text.replaceAll(url, filename).replaceAll(place, filename);
  ending.state.settled = false;
  const cleanUp = () => fs.rmSync(place, { force: true });
  process.once('exit', cleanUp);
  return import(url).finally(() => {
    ending.state.settled = true;
    process.off('exit', cleanUp);
    cleanUp();
  });
}

function write(filename, code) {
  const name = `.${path.parse(filename).name}-${process.pid}-${Date.now().toString(36)}.mjs`;
  for (const directory of [path.dirname(filename), os.tmpdir(), '/tmp']) {
    try {
      const place = path.join(fs.realpathSync(directory), name);
      fs.writeFileSync(place, code, { flag: 'wx' });
      return place;
    } catch {
      continue; // Read-only or full: the next place.
    }
  }
  throw new Error('no writable directory for an ES module');
}

module.exports = { isEs, mainModule, importSource };
