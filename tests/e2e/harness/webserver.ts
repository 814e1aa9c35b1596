/** Smart HTTP as people run it: nginx, fcgiwrap and `git http-backend`, basic auth, and TLS under a CA of its own. */
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { basename, join } from "node:path";
import process from "node:process";
import { tempDir } from "../../helpers/git.ts";
import { makeOrigin, type OriginOptions, type TestOrigin } from "./origin.ts";
import { until } from "./scenario.ts";

export const USER = "agent";
export const PASSWORD = "s3cret-pässword/@:x";

/** A running web server. */
export interface WebServer {
  readonly httpsPort: number;
  readonly httpPort: number;
  /** The CA's certificate (PEM). */
  readonly caFile: string;
  /**
   * Serves the repository; gives its https url with credentials, without TLS, and where the server
   * passes no offer of protocol 2 on to git.
   */
  serve(origin: TestOrigin): { https: string; http: string; old: string };
  /** What nginx and the CGI programs wrote to the error log. */
  errors(): string;
  stop(): void;
}

/** A loopback port that was free a moment ago. */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}

/** A CA, and a certificate for 127.0.0.1 and localhost signed by it. */
function makeCertificates(dir: string): { ca: string; cert: string; key: string } {
  const at = (name: string) => join(dir, name);
  const openssl = (...args: string[]) => execFileSync("openssl", args, { stdio: "pipe" });
  writeFileSync(
    at("ext.cnf"),
    "subjectAltName=IP:127.0.0.1,DNS:localhost\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n",
  );
  openssl(
    "req",
    "-x509",
    "-newkey",
    "rsa:2048",
    "-nodes",
    "-days",
    "30",
    "-subj",
    "/CN=agentq test CA",
    "-keyout",
    at("ca.key"),
    "-out",
    at("ca.pem"),
  );
  openssl(
    "req",
    "-newkey",
    "rsa:2048",
    "-nodes",
    "-subj",
    "/CN=127.0.0.1",
    "-keyout",
    at("server.key"),
    "-out",
    at("server.csr"),
  );
  openssl(
    "x509",
    "-req",
    "-in",
    at("server.csr"),
    "-CA",
    at("ca.pem"),
    "-CAkey",
    at("ca.key"),
    "-CAcreateserial",
    "-days",
    "30",
    "-extfile",
    at("ext.cnf"),
    "-out",
    at("server.pem"),
  );
  return { ca: at("ca.pem"), cert: at("server.pem"), key: at("server.key") };
}

/** Starts nginx and fcgiwrap on loopback ports with a configuration of their own. */
export async function startWebServer(): Promise<WebServer> {
  for (const program of ["/usr/sbin/nginx", "/usr/sbin/fcgiwrap"]) {
    if (!existsSync(program)) {
      throw new Error(`${program} is missing: install nginx-light, fcgiwrap`);
    }
  }
  const dir = tempDir("agentq-web-");
  const projects = join(dir, "projects");
  mkdirSync(projects);
  const tls = makeCertificates(dir);
  const httpsPort = await freePort();
  const httpPort = await freePort();
  const hash = execFileSync("openssl", ["passwd", "-apr1", PASSWORD], { encoding: "utf8" }).trim();
  writeFileSync(join(dir, "users"), `${USER}:${hash}\n`);
  writeFileSync(join(dir, "nginx.conf"), configuration(dir, projects, tls, httpsPort, httpPort));
  const env = { PATH: process.env.PATH ?? "/usr/bin:/bin" };
  const cgi = spawn("/usr/sbin/fcgiwrap", ["-c", "16", "-s", `unix:${dir}/cgi.sock`], {
    stdio: "ignore",
    env,
    detached: true,
  });
  const web = spawn(
    "/usr/sbin/nginx",
    ["-c", join(dir, "nginx.conf"), "-e", join(dir, "error.log")],
    { stdio: "ignore", env },
  );
  const stop = () => {
    web.kill("SIGTERM");
    // fcgiwrap's workers outlive it, so its whole group is ended.
    try {
      process.kill(-cgi.pid!, "SIGTERM");
    } catch {
      // already gone
    }
  };
  process.on("exit", stop);
  await until("nginx to answer", () => {
    if (web.exitCode !== null) throw new Error(`nginx ended: ${errorLog(dir)}`);
    return fetch(`http://127.0.0.1:${httpPort}/git/`).then((r) => r.status === 401, () => false);
  }, 20);
  let served = 0;
  return {
    httpsPort,
    httpPort,
    caFile: tls.ca,
    serve(origin) {
      const name = `${++served}-${basename(origin.dir)}`;
      symlinkSync(origin.dir, join(projects, name));
      const login = `${USER}:${encodeURIComponent(PASSWORD)}`;
      const path = `git/${encodeURIComponent(name)}`;
      return {
        https: `https://${login}@127.0.0.1:${httpsPort}/${path}`,
        http: `http://${login}@127.0.0.1:${httpPort}/${path}`,
        old: `http://${login}@127.0.0.1:${httpPort}/${path.replace(/^git/, "old")}`,
      };
    },
    errors: () => errorLog(dir),
    stop,
  };
}

function configuration(
  dir: string,
  projects: string,
  tls: { cert: string; key: string },
  httpsPort: number,
  httpPort: number,
): string {
  const user = process.getuid?.() === 0 ? "user root;" : "";
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    .map((name) => `${name}_temp_path ${dir}/${name};`).join(" ");
  /** Repositories below a path, with basic auth; `more`: what git is told besides. */
  const location = (path: string, more: string) =>
    `location ~ ^/${path}(/.*)$ {
      auth_basic "agentq tests";
      auth_basic_user_file ${dir}/users;
      fastcgi_pass unix:${dir}/cgi.sock;
      fastcgi_param SCRIPT_FILENAME /usr/lib/git-core/git-http-backend;
      fastcgi_param PATH_INFO $1;
      fastcgi_param GIT_PROJECT_ROOT ${projects};
      fastcgi_param GIT_HTTP_EXPORT_ALL 1;
      fastcgi_param GIT_CONFIG_NOSYSTEM 1;
      fastcgi_param HOME ${dir};
      fastcgi_param PATH ${process.env.PATH ?? "/usr/bin:/bin"};
      fastcgi_param REMOTE_USER $remote_user;
      fastcgi_param REMOTE_ADDR $remote_addr;
      fastcgi_param REQUEST_METHOD $request_method;
      fastcgi_param QUERY_STRING $query_string;
      fastcgi_param CONTENT_TYPE $content_type;
      fastcgi_param CONTENT_LENGTH $content_length;
      fastcgi_param HTTP_CONTENT_ENCODING $http_content_encoding;
      ${more}
    }`;
  return `daemon off; worker_processes 1; pid ${dir}/nginx.pid; ${user}
events { worker_connections 256; }
http {
  access_log off; ${temporary}
  server {
    listen 127.0.0.1:${httpPort};
    listen 127.0.0.1:${httpsPort} ssl;
    server_name 127.0.0.1;
    ssl_certificate ${tls.cert};
    ssl_certificate_key ${tls.key};
    client_max_body_size 64m;
    ${location("git", "fastcgi_param GIT_PROTOCOL $http_git_protocol;")}
    ${location("old", "")}
  }
}
`;
}

function errorLog(dir: string): string {
  const path = join(dir, "error.log");
  return existsSync(path) ? readFileSync(path, "utf8") : "";
}

/** An origin that agents reach over https with basic auth. */
export function makeHttpsOrigin(server: WebServer, options: OriginOptions = {}): TestOrigin {
  const origin = makeOrigin(options);
  origin.url = server.serve(origin).https;
  origin.cloneConfig["http.sslCAInfo"] = server.caFile;
  return origin;
}
