/** Credentials of the environment and the clone's configuration aren't published with what a check says. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { withoutSecrets } from "../../src/landing/published-secrets.ts";

test("logins of proxies are hidden as they are written, decoded, and the password alone", () => {
  const env = {
    https_proxy: "http://user:s3cr%40t%2Fword@proxy:3128",
    HTTP_PROXY: "me:pw@proxy",
    all_proxy: "socks5://only@proxy:1",
    no_proxy: "user:kept@here",
    OTHER: "http://user:stays@proxy",
    ftp_proxy: "",
  };
  for (
    const [said, shown] of [
      ["https_proxy=http://user:s3cr%40t%2Fword@proxy:3128", "https_proxy=http://…@proxy:3128"],
      ["password s3cr%40t%2Fword or s3cr@t/word.", "password … or …."],
      ["HTTP_PROXY=me:pw@proxy, pw and pw@x", "HTTP_PROXY=…@proxy, pw and …@x"],
      ["socks5://only@proxy:1", "socks5://…@proxy:1"],
      ["user:kept@here http://user:stays@proxy", "user:kept@here http://user:stays@proxy"],
      ["user and only", "user and only"],
      ["", ""],
    ] as const
  ) assert.equal(withoutSecrets(said, env), shown);
  assert.equal(withoutSecrets("as it is", { http_proxy: "http://%zz:%@proxy" }), "as it is");
  assert.equal(
    withoutSecrets("http://proxy:1/", { http_proxy: "http://proxy:1/" }),
    "http://proxy:1/",
  );
});

test("credentials in the clone's configuration are hidden, user names of ssh are not", () => {
  const config = [
    { key: "remote.origin.url", value: "https://bob:s3cr%40t@host/o.git" },
    { key: "remote.up.pushurl", value: "https://ghp_token@host/o.git" },
    { key: "url.https://who:other1@host/.insteadof", value: "short:" },
    { key: "remote.s.url", value: "ssh://git:port@host/o.git" },
    { key: "http.https://host/.extraheader", value: "AUTHORIZATION: basic eC1hY2Nlc3M=" },
    { key: "http.extraheader", value: "X-Trace: nothing-secret" },
    { key: "http.proxy", value: "http://u:pw@proxy:1" },
    { key: "user.email", value: "a@b.example" },
    { key: "core.bare", value: null },
  ];
  for (
    const [said, shown] of [
      ["origin\thttps://bob:s3cr%40t@host/o.git (fetch)", "origin\thttps://…@host/o.git (fetch)"],
      ["password s3cr@t, ghp_token@host", "password …, …@host"],
      ["url.https://who:other1@host/.insteadof=short:", "url.https://…@host/.insteadof=short:"],
      ["ssh://git:port@host/o.git a@b.example", "ssh://git:port@host/o.git a@b.example"],
      ["extraheader=AUTHORIZATION: basic eC1hY2Nlc3M=", "extraheader=AUTHORIZATION: basic …"],
      ["X-Trace: nothing-secret, pw, pw@proxy", "X-Trace: nothing-secret, pw, …@proxy"],
      ["token my-token", "token …"],
      ["https://x:y0urs7@host/", "https://…@host/"],
    ] as const
  ) {
    const env = { AGENTQ_TOKEN: "my-token", AGENTQ_REMOTE: "https://x:y0urs7@host/" };
    assert.equal(withoutSecrets(said, env, config), shown);
  }
});

test("whatever the password, neither it nor its url is left", () => {
  fc.assert(fc.property(
    fc.string({ unit: "binary-ascii", minLength: 6 }).filter((word) => !"…@".includes(word)),
    fc.string(),
    fc.string(),
    (password, before, after) => {
      const written = encodeURIComponent(password);
      const url = `http://u:${written}@proxy`;
      const shown = withoutSecrets(`${before}${url} ${password}${after}`, { http_proxy: url });
      assert.ok(!shown.includes(`${written}@`), shown);
      assert.ok(!shown.includes(password), shown);
    },
  ));
});
