/** Scenarios that must hold on disk and over https alike. */
import { after } from "node:test";
import { makeOrigin, type OriginOptions, type TestOrigin } from "./origin.ts";
import { scenario } from "./scenario.ts";
import { makeHttpsOrigin, startWebServer, type WebServer } from "./webserver.ts";

export type Transport = "disk" | "https";
/** Makes an origin that agents reach over the transport under test. */
export type MakeOrigin = (options?: OriginOptions) => TestOrigin;

let server: Promise<WebServer> | undefined;

/** The web server of this test file, started when first needed. */
export function webServer(): Promise<WebServer> {
  server ??= startWebServer();
  return server;
}

after(async () => {
  const running = server;
  server = undefined;
  if (running) (await running).stop();
});

/** Declares the scenario twice: against a bare repository on disk and behind nginx with TLS. */
export function overBoth(
  name: string,
  body: (make: MakeOrigin, transport: Transport) => Promise<void>,
): void {
  scenario(`${name} [disk]`, () => body(makeOrigin, "disk"));
  scenario(`${name} [https]`, async () => {
    const web = await webServer();
    await body((options) => makeHttpsOrigin(web, options), "https");
  });
}
