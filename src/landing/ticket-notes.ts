/**
 * The tickets that submissions of this machine got, noted beside the store: an empty file each, named
 * `<submission's name>.<ticket>`, made without a sync. A note that a power cut takes away is no loss: the
 * queue is searched for the submission's id then, as when a process dies before it can note anything.
 *
 * In the same way, as `<submission's name>.told`: that its submitter was told what it asked for and waits for nothing
 * more. Without that note a result is one that nobody has been told yet.
 */
import { closeSync, constants, openSync, readdirSync, unlinkSync } from "node:fs";
import { join } from "node:path";
import { errnoOf, ioError } from "../platform/durable.ts";
import { makeBelow } from "../platform/make-below.ts";

export interface TicketNotes {
  /** Tickets by the names of submissions. */
  read(): ReadonlyMap<string, number>;
  /** @throws `io-error` */
  write(name: string, ticket: number): void;
  /** The names of submissions whose submitters wait for nothing more. */
  told(): ReadonlySet<string>;
  /** Notes whether its submitter waits for nothing more. Where that can't be noted it does. */
  tell(name: string, told: boolean): void;
  /** Removes what was noted for these. What can't be removed says nothing without its submission. */
  remove(names: ReadonlySet<string>): void;
}

/** As it is where it is there; through no link, and without waiting for a FIFO's reader. */
const MAKE = constants.O_WRONLY | constants.O_CREAT | (constants.O_NOFOLLOW ?? 0) |
  (constants.O_NONBLOCK ?? 0);

const TOLD = ".told";

/** The directory of the notes below the state directory. */
export const ticketNotesDirectory = (stateDirectory: string) => join(stateDirectory, "tickets");

export function ticketNotes(stateDirectory: string): TicketNotes {
  const directory = ticketNotesDirectory(stateDirectory);
  const files = (): string[] => {
    try {
      return readdirSync(directory);
    } catch {
      return [];
    }
  };
  const toldNames = () =>
    files().flatMap((file) => file.endsWith(TOLD) ? [file.slice(0, -TOLD.length)] : []);
  const notes = (): { file: string; name: string; ticket: number }[] => {
    return files().flatMap((file) => {
      const match = /^(.+)\.(\d{1,15})$/.exec(file);
      return match ? [{ file, name: match[1]!, ticket: Number(match[2]) }] : [];
    });
  };
  const make = (path: string): void => {
    try {
      closeSync(openSync(path, MAKE, 0o600));
    } catch (cause) {
      if (errnoOf(cause) !== "ENOENT") throw cause;
      // The state directory holds the submission: where it isn't any more, it was moved.
      makeBelow(stateDirectory, directory, 0o700);
      closeSync(openSync(path, MAKE, 0o600));
    }
  };
  const remove = (file: string): void => {
    try {
      unlinkSync(join(directory, file));
    } catch {
      // Another process was first, or it stays.
    }
  };
  return {
    read: () => new Map(notes().map(({ name, ticket }) => [name, ticket])),
    write(name, ticket) {
      const path = join(directory, `${name}.${ticket}`);
      try {
        make(path);
      } catch (cause) {
        throw ioError("write", path, cause);
      }
    },
    told: () => new Set(toldNames()),
    tell(name, told) {
      try {
        if (told) make(join(directory, name + TOLD));
        else remove(name + TOLD);
      } catch {
        // It is kept for longer then.
      }
    },
    remove(names) {
      const noted = [...notes(), ...toldNames().map((name) => ({ file: name + TOLD, name }))];
      for (const { file, name } of noted) if (names.has(name)) remove(file);
    },
  };
}
