/**
 * The tickets that submissions of this machine got, noted beside the store: an empty file each, named
 * `<submission's name>.<ticket>`, made without a sync. A note that a power cut takes away is no loss: the
 * queue is searched for the submission's id then, as when a process dies before it can note anything.
 */
import { closeSync, constants, mkdirSync, openSync, readdirSync, unlinkSync } from "node:fs";
import { join } from "node:path";
import { errnoOf, ioError } from "../platform/durable.ts";

export interface TicketNotes {
  /** Tickets by the names of submissions. */
  read(): ReadonlyMap<string, number>;
  /** @throws `io-error` */
  write(name: string, ticket: number): void;
  /** Removes what was noted for these. What can't be removed says nothing without its submission. */
  remove(names: ReadonlySet<string>): void;
}

/** As it is where it is there; through no link, and without waiting for a FIFO's reader. */
const MAKE = constants.O_WRONLY | constants.O_CREAT | (constants.O_NOFOLLOW ?? 0) |
  (constants.O_NONBLOCK ?? 0);

/** The directory of the notes below the state directory. */
export const ticketNotesDirectory = (stateDirectory: string) => join(stateDirectory, "tickets");

export function ticketNotes(stateDirectory: string): TicketNotes {
  const directory = ticketNotesDirectory(stateDirectory);
  const notes = (): { file: string; name: string; ticket: number }[] => {
    let files: string[];
    try {
      files = readdirSync(directory);
    } catch {
      return [];
    }
    return files.flatMap((file) => {
      const match = /^(.+)\.(\d{1,15})$/.exec(file);
      return match ? [{ file, name: match[1]!, ticket: Number(match[2]) }] : [];
    });
  };
  return {
    read: () => new Map(notes().map(({ name, ticket }) => [name, ticket])),
    write(name, ticket) {
      const path = join(directory, `${name}.${ticket}`);
      try {
        try {
          closeSync(openSync(path, MAKE, 0o600));
        } catch (cause) {
          if (errnoOf(cause) !== "ENOENT") throw cause;
          mkdirSync(directory, { recursive: true, mode: 0o700 });
          closeSync(openSync(path, MAKE, 0o600));
        }
      } catch (cause) {
        throw ioError("write", path, cause);
      }
    },
    remove(names) {
      for (const { file, name } of notes()) {
        if (!names.has(name)) continue;
        try {
          unlinkSync(join(directory, file));
        } catch {
          // Another process was first, or it stays.
        }
      }
    },
  };
}
