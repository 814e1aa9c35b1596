/** Writes docs/crash-points.md. */
import { writeFileSync } from "node:fs";
import { crashTable } from "../tests/crash/table.ts";

writeFileSync(
  new URL("../docs/crash-points.md", import.meta.url),
  (await crashTable()).text,
);
