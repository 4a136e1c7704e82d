'use strict';
// Sets the scene of a job: checks it, then environment, directory and arguments.

const path = require('path');

const KEPT = 'RINGFENCE_RESULT_FD'; // User code may write its result there.

class BadJob extends Error {}

const isText = (value) => typeof value === 'string';
const isWord = (value) => isText(value) && !value.includes('\0');
const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);

const kinds = {
  code: ['a string', isText],
  filename: ['a string', isWord],
  function: ['a string', isText],
  cwd: ['a string', isWord],
  args: ['an object', isObject],
  argv: ['a list of strings', (value) => Array.isArray(value) && value.every(isWord)],
  env: ['an object of strings', (value) => isObject(value) && Object.values(value).every(isWord)],
};

// Refuses a job whose fields are missing or of a wrong type, naming all of them.
function check(job) {
  const problems = job.code === undefined || job.code === null ? ['`code` is missing'] : [];
  for (const [name, [kind, fits]] of Object.entries(kinds)) {
    const value = job[name];
    if (value !== undefined && value !== null && !fits(value)) problems.push(`\`${name}\` must be ${kind}`);
  }
  if (problems.length > 0) throw new BadJob(problems.join('; '));
}

// Enters the job's scene; returns the path of its main file.
function enter(job, filename) {
  if (job.env) replaceEnvironment(job.env);
  if (job.cwd) process.chdir(job.cwd);
  const main = path.resolve(process.cwd(), filename);
  process.argv = [process.execPath, main, ...(job.argv || [])];
  process.title = 'node';
  return main;
}

function replaceEnvironment(wanted) {
  const kept = process.env[KEPT];
  for (const name of Object.keys(process.env)) delete process.env[name];
  Object.assign(process.env, wanted);
  if (kept !== undefined) process.env[KEPT] = kept;
}

module.exports = { KEPT, BadJob, check, enter };
