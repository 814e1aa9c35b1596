/**
 * Loaded before every test file: one seed for all generated cases, so that a run can be repeated.
 * AGENTQ_TEST_SEED is a number, or `random` for a seed of the moment, which the test command prints.
 */
import process from "node:process";
import fc from "fast-check";

const seed = Number(process.env.AGENTQ_TEST_SEED);
if (Number.isSafeInteger(seed)) fc.configureGlobal({ ...fc.readConfigureGlobal(), seed });
